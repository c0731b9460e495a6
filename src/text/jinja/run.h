/* SPDX-License-Identifier: Apache-2.0 */
/* One rendering: its memory, its bounds, its output, its error. Functions that can fail return false after
 * jinja_raise; nothing else may happen then but returning. */
#ifndef MLXCEL_TEXT_JINJA_RUN_H
#define MLXCEL_TEXT_JINJA_RUN_H

#include "base/arena.h"
#include "text/jinja.h"
#include "text/jinja/value.h"

#include <locale.h>

/* C frames of the evaluator that may be open, and calls of macros and recursive loops. Python's own recursion limit of
 * 1000 frames ends a recursive macro at about 195 calls. */
#define JINJA_MAX_DEPTH 5000
#define JINJA_MAX_CALLS 200
/* Nesting of values when they are printed, compared or converted. */
#define JINJA_MAX_NESTING 500

struct jinja_environment;

struct jinja_run {
    const struct jinja_template *template;
    struct arena *arena;
    size_t arena_start, max_memory_bytes;
    struct buffer *out; /* captures (macros, set blocks) stand behind the output and are cut off when they end */
    size_t out_start, max_output_bytes;
    uint64_t steps_left;
    int depth, calls;
    bool autoescape;
    bool is_folding;             /* evaluating constants of a template: no variables, no calls */
    bool is_impossible;          /* set with the failure, when folding: not a constant, rather than an error */
    struct jinja_dict *context;  /* variables passed in */
    struct jinja_dict *exported; /* set at the top level, for blocks */
    const struct tm *now;
    struct jv captured; /* the text that a filter or set block hands to its filter */
    uint64_t hash_seed, random_state;
    locale_t c_locale; /* made when first needed */
    unsigned line;
    struct jinja_failure *failure;
};

/* Kinds of errors: the names that jinja2 and Python have for them. */
extern const char JINJA_SYNTAX[], JINJA_RAISED[], JINJA_LIMIT[], JINJA_TYPE[], JINJA_VALUE[], JINJA_KEY[],
    JINJA_INDEX[], JINJA_UNDEFINED[], JINJA_SECURITY[], JINJA_RUNTIME[], JINJA_ZERO[], JINJA_OVERFLOW[],
    JINJA_FILTER_ARGUMENT[], JINJA_UNSUPPORTED[], JINJA_ATTRIBUTE[], JINJA_ASSERTION[];

/* Sets the failure; returns false. */
bool jinja_raise(struct jinja_run *run, const char *kind, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
bool jinja_raise_text(struct jinja_run *run, const char *kind, const char *text, size_t length);
bool jinja_out_of_memory(struct jinja_run *run);

/* Takes n steps from the budget. */
bool jinja_spend(struct jinja_run *run, uint64_t n);
static inline bool jinja_step(struct jinja_run *run) {
    if (run->steps_left) return run->steps_left--, true;
    return jinja_spend(run, 1);
}
/* Steps for work on n bytes or n items. */
static inline bool jinja_spend_bytes(struct jinja_run *run, size_t n) { return jinja_spend(run, n / 64 + 1); }
/* The same for a search, which takes up to four times as long a byte. */
static inline bool jinja_spend_search(struct jinja_run *run, size_t n) { return jinja_spend(run, n / 16 + 1); }

/* Memory of the rendering, uninitialised; NULL with the failure set. */
void *jinja_alloc(struct jinja_run *run, size_t n, size_t size);

bool jinja_write(struct jinja_run *run, const char *text, size_t length);

/* Appends to a buffer of the rendering, within its bounds. */
bool jinja_put(struct jinja_run *run, struct buffer *out, const char *text, size_t length);
static inline bool jinja_puts(struct jinja_run *run, struct buffer *out, const char *text) {
    return jinja_put(run, out, text, __builtin_strlen(text));
}

/* The "C" locale, for printf and strtod. */
locale_t jinja_locale(struct jinja_run *run);

#endif
