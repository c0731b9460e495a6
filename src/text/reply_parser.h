/* SPDX-License-Identifier: Apache-2.0 */
/* The parser's inside, shared by the reply_*.c files.
 *
 *   reply.c           create, push, finish; text between calls: markers, white space, code fences, thoughts
 *   reply_messages.c  headers of formats that write messages
 *   reply_block.c     blocks of calls: what comes next, heads of calls
 *   reply_value.c     calls and arguments that end where their brackets close
 *   reply_param.c     parameters between tags
 *   reply_emit.c      calls as events: names, streamed arguments, what becomes of broken ones
 *
 * Input that is not yet decided lies in `in`; every step either advances or asks for more input. A step must decide the
 * same whether or not more input is there already, so what matches only in part waits (MATCH_PART). */
#ifndef MLXCEL_TEXT_REPLY_PARSER_H
#define MLXCEL_TEXT_REPLY_PARSER_H

#include "text/reply.h"
#include "text/reply_format.h"
#include "text/reply_scan.h"
#include "text/reply_tools.h"

#include "base/arena.h"

#include <string.h>

enum {
    MAX_MARKERS = 64,
    MAX_HEAD_BYTES = 1024,          /* of a call or a message; white space within a call's markup */
    MAX_CALLS = 1024,               /* of one reply; further ones stay text */
    MAX_UNDECIDED_BYTES = 64 << 20, /* a block that is longer becomes text */
};

enum reply_state {
    IN_CONTENT,
    IN_REASONING,
    IN_HEADER,     /* of a message, up to its `message` marker */
    BETWEEN_CALLS, /* in a block */
    IN_HEAD,       /* of a call */
    IN_SECOND_HEAD,
    BEFORE_ARGUMENTS,
    IN_JSON_CALL,      /* an object that holds name and arguments */
    IN_JSON_ARGUMENTS, /* an object that is the arguments */
    IN_PYTHON_CALL,
    IN_GEMMA_ARGUMENTS,
    BEFORE_PARAMETER,
    IN_KEY,
    BEFORE_VALUE,
    IN_VALUE,
    IN_CODE,
    FINISHED,
};

/* Where a line of content stands. LINE_INFO: behind the backticks that opened a fence. */
enum line_state { LINE_START, LINE_TICKS, LINE_INFO, LINE_TEXT };

enum step { STEP_WAIT, STEP_GO };
enum match { MATCH_NO, MATCH_PART, MATCH_YES };

enum marker_kind {
    MARKER_BLOCK,       /* opens block */
    MARKER_CALL,        /* a call form's own start opens block */
    MARKER_THOUGHT,     /* opens thought */
    MARKER_THOUGHT_END, /* of a thought that was empty and not opened */
    MARKER_DROP,
    MARKER_WRAP_OPEN,
    MARKER_WRAP_CLOSE,
    MARKER_HEADER,
    MARKER_CLOSE, /* of the block that was left because something else than a call stood in it */
};

struct marker {
    const char *text;
    size_t length;
    enum marker_kind kind;
    const struct reply_block *block;
    const struct reply_thought *thought;
};

/* A call of a block that counts only as the whole answer, kept until the answer ends. */
struct queued_call {
    char *name, *id, *arguments;
    size_t name_length, id_length, arguments_length;
    size_t from, to; /* in `in` */
    bool after_bad;  /* text before it, since the call before, is no call */
};

struct reply {
    const struct reply_format *format;
    struct reply_tools tools;
    reply_sink sink;
    void *sink_context;
    bool streams_arguments, is_stopped; /* is_stopped: the sink said so */
    bool is_out_of_memory;
    bool is_finishing, is_cut_off;

    struct buffer in;
    size_t at;       /* everything before is decided */
    size_t scanned;  /* searches continue here */
    size_t n_primed; /* bytes at the start of `in` that are the prompt's, not the model's */
    enum reply_state state;
    struct marker markers[MAX_MARKERS];
    size_t n_markers;
    bool is_marker_start[256];

    /* text on its way out: kept back are white space at the end and incomplete characters */
    struct buffer text;
    size_t text_solid; /* bytes of it up to the last that is no white space */
    enum reply_event_kind text_kind;
    bool has_content, has_reasoning; /* something else than white space */
    bool trims;                      /* white space at the start of the content is layout */
    bool thought_has_text, wants_break, had_call_since_text;
    const struct reply_thought *thought;
    bool is_wrapped;
    bool header_is_sure; /* what follows the prompt's part of the first header is markup */
    /* the current line of content, for fences */
    enum line_state line;
    bool in_fence;
    unsigned line_spaces, line_ticks;

    /* the block */
    const struct reply_block *block;
    const struct reply_call *call; /* of the latest head */
    size_t raw_start;  /* text from here to `at` is in no event yet, but for a call that is being streamed */
    size_t item_start; /* of the current call */
    size_t value_start;
    size_t n_block_calls;
    bool has_bad;    /* in raw_start .. item_start stands something that is no call */
    bool after_call; /* a close of the call form may follow */
    struct value_scan scan;
    bool in_quote;
    struct buffer name, id, key, arguments;
    unsigned value_types;
    size_t value_taken; /* a text value: where in `in` the part begins that is not yet in `arguments` */
    /* the call as events */
    bool is_begun;
    struct buffer begun_name;
    size_t sent; /* bytes of `arguments` */
    uint32_t next_index, n_calls;
    struct arena queue_arena;
    struct queued_call *queue;
    size_t n_queued, queue_capacity;
};

/* ---- reply.c ---- */

/* Whether in[at ..] begins with marker; NULL never matches. */
enum match reply_match(const struct reply *r, size_t at, const char *marker);
/* The first marker within in[from ..] (MATCH_YES, *found), or the place where one might begin (MATCH_PART). */
enum match reply_search(const struct reply *r, size_t from, const char *marker, size_t *found);
bool reply_is_space(char c);
void reply_skip_space(struct reply *r);
/* Sends in[from .. to) as content, through the white space rules. */
void reply_put_content(struct reply *r, size_t from, size_t to);
/* Sends what is ready of the collected text; all = also what is otherwise kept back at the end. */
void reply_flush_text(struct reply *r, bool all);
void reply_begin_content(struct reply *r, bool trims);
/* Before a call is told, content that may leave is sent; after it is complete, white space around it is layout. */
void reply_text_before_call(struct reply *r);
void reply_text_after_call(struct reply *r);
void reply_begin_reasoning(struct reply *r, const struct reply_thought *thought);
bool reply_send(struct reply *r, const struct reply_event *event);

/* ---- reply_messages.c ---- */

enum step reply_step_header(struct reply *r);
void reply_finish_header(struct reply *r);
/* Reads the prompt's end: the header that it began, if it did. */
void reply_begin_message(struct reply *r, const char *prompt, size_t length);

/* ---- reply_block.c ---- */

void reply_enter_block(struct reply *r, const struct reply_block *block, size_t marker_length);
/* A call of the block begins in[at ..), its name already in r->name. */
void reply_enter_arguments(struct reply *r, const struct reply_block *block, const struct reply_call *call);
enum step reply_step_block(struct reply *r);
void reply_finish_block(struct reply *r);
/* The block ends at `at`: what is no call becomes content, and content goes on. */
enum step reply_leave_block(struct reply *r);

/* ---- reply_value.c ---- */

enum step reply_step_value(struct reply *r);

/* ---- reply_param.c ---- */

enum step reply_step_parameters(struct reply *r);
enum step reply_step_code(struct reply *r);
/* The value of `name` in a list of attributes. */
bool reply_attribute(const char *text, size_t length, const char *name, const char **value, size_t *value_length);

/* ---- reply_emit.c ---- */

void reply_clear(struct reply *r, struct buffer *buffer);
void reply_set(struct reply *r, struct buffer *buffer, const char *text, size_t length);
/* Replaces what r->arguments holds so far; a call that has told other arguments already is cancelled. */
void reply_set_arguments(struct reply *r, const char *text, size_t length);
/* A call of r->name has begun; with streams_arguments it is told at once if such a tool is offered. */
void reply_begin_call(struct reply *r);
/* Sends what is new in r->arguments of a call that has begun. */
void reply_stream_arguments(struct reply *r);
/* The call r->name(r->arguments) is complete and ends at `at`. False when it is no call of an offered tool. */
bool reply_end_call(struct reply *r);
/* What began at item_start is no call. */
void reply_bad_call(struct reply *r);
/* The answer ended: sends the queued calls and what stands between them. */
void reply_send_queue(struct reply *r);

#endif
