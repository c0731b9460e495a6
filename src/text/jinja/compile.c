/* SPDX-License-Identifier: Apache-2.0 */
#include "text/jinja/compiler.h"

#include "base/clock.h"
#include "base/memory.h"
#include "base/rng.h"
#include "text/jinja/call.h"
#include "text/jinja/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_TEMPLATE_BYTES ((size_t)2 << 20)
#define MAX_COMPILE_STEPS  20000000
#define MAX_COMPILE_BYTES  ((size_t)512 << 20)

bool jinja_syntax_error(struct compiler *c, uint32_t line, const char *format, ...) {
    char text[500];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    c->run.line = line;
    return jinja_raise_text(&c->run, JINJA_SYNTAX, text, strlen(text));
}

void *jinja_compiler_alloc(struct compiler *c, size_t n, size_t size) {
    void *memory = jinja_alloc(&c->run, n, size);
    if (memory) memset(memory, 0, n * size);
    return memory;
}

struct node *jinja_new_node(struct compiler *c, enum node_kind kind, uint32_t line) {
    struct node *n = jinja_compiler_alloc(c, 1, sizeof *n);
    if (!n) return NULL;
    n->kind = (uint8_t)kind;
    n->line = line;
    return n;
}

const struct name *jinja_intern(struct compiler *c, const char *text, size_t length) {
    uint64_t index;
    if (map_get(&c->names, text, length, &index)) return c->name_list[index];
    struct name *name = jinja_compiler_alloc(c, 1, sizeof *name);
    char *copy = name ? jinja_compiler_alloc(c, length + 1, 1) : NULL;
    if (!copy) return NULL;
    memcpy(copy, text, length);
    name->text = (struct jinja_text){.data = copy, .length = length, .n_chars = JINJA_UNCOUNTED};
    jinja_text_count(&name->text);
    jinja_text_hash(&name->text, c->run.hash_seed);
    name->id = (uint32_t)c->n_names;
    name->methods = jinja_find_methods(&name->text);
    if (!array_reserve(&c->name_list, &c->name_capacity, c->n_names + 1, sizeof *c->name_list) ||
        !map_put(&c->names, copy, length, c->n_names, NULL)) {
        jinja_out_of_memory(&c->run);
        return NULL;
    }
    c->name_list[c->n_names++] = name;
    return name;
}

/* The list of names outlives the compiler's. */
static bool keep_names(struct compiler *c) {
    const struct name **names = jinja_compiler_alloc(c, c->n_names + 1, sizeof *names);
    if (!names) return false;
    for (size_t i = 0; i < c->n_names; i++) names[i] = c->name_list[i];
    c->template->names = names;
    c->template->n_names = c->n_names;
    return true;
}

static bool compile(struct compiler *c, const char *text, size_t length) {
    if (length > MAX_TEMPLATE_BYTES)
        return jinja_raise(&c->run, JINJA_LIMIT, "the template has more than %zu bytes", MAX_TEMPLATE_BYTES);
    if (!jinja_lex(c, text, length)) return false;
    c->at = 1; /* behind the mark of the start */
    return jinja_parse(c, &c->template->body) && jinja_resolve(c) && keep_names(c);
}

struct jinja_template *jinja_compile_explained(const char *text, size_t length, struct jinja_failure *failure,
                                               struct mx_error *err) {
    struct jinja_failure own = {0};
    struct jinja_template *t = calloc(1, sizeof *t);
    if (!t) {
        error_memory(err, "chat template");
        return NULL;
    }
    if (!failure) failure = &own;
    jinja_failure_free(failure);
    t->hash_seed = rng_mix(clock_now_ns() ^ (uint64_t)(uintptr_t)t);
    struct buffer out = {0};
    struct compiler c = {.template = t,
                         .run = {.template = t,
                                 .arena = &t->memory,
                                 .max_memory_bytes = MAX_COMPILE_BYTES,
                                 .max_output_bytes = MAX_COMPILE_BYTES,
                                 .out = &out,
                                 .steps_left = MAX_COMPILE_STEPS,
                                 .hash_seed = t->hash_seed,
                                 .failure = failure}};
    bool ok = compile(&c, text, length);
    if (!ok)
        error_set(err, failure->kind == JINJA_LIMIT ? ERROR_LIMIT : ERROR_FORMAT, "chat template, line %u: %s",
                  failure->line, failure->message.data ? failure->message.data : "out of memory");
    free(c.tokens);
    free(c.name_list);
    map_free(&c.names);
    buffer_free(&out);
    if (c.run.c_locale) freelocale(c.run.c_locale);
    jinja_failure_free(&own);
    if (ok) return t;
    jinja_free(t);
    return NULL;
}

struct jinja_template *jinja_compile(const char *text, size_t length, struct mx_error *err) {
    return jinja_compile_explained(text, length, NULL, err);
}

void jinja_free(struct jinja_template *t) {
    if (!t) return;
    arena_free(&t->memory);
    free(t);
}

bool jinja_mentions(const struct jinja_template *t, const char *name) {
    for (size_t i = 0; i < t->n_names; i++)
        if (jinja_text_is(&t->names[i]->text, name)) return true;
    return false;
}
