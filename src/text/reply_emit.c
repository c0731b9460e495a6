/* SPDX-License-Identifier: Apache-2.0 */
/* Calls as events. What a call is, is decided when it is complete; a call that is told earlier (streams_arguments) runs
 * ahead of that decision and is cancelled where it turns out differently. So calls and content are the same with and
 * without. */
#include "text/reply_parser.h"

#include "base/memory.h"
#include "base/utf8.h"

void reply_clear(struct reply *r, struct buffer *buffer) {
    r->is_out_of_memory |= buffer->failed;
    buffer_clear(buffer);
}

void reply_set(struct reply *r, struct buffer *buffer, const char *text, size_t length) {
    reply_clear(r, buffer);
    if (!buffer_append(buffer, text, length)) r->is_out_of_memory = true;
}

static void cancel(struct reply *r) {
    if (!r->is_begun) return;
    r->is_begun = false;
    reply_send(r, &(struct reply_event){.kind = REPLY_CALL_CANCEL, .index = r->next_index - 1});
}

void reply_set_arguments(struct reply *r, const char *text, size_t length) {
    if (r->is_begun && (length < r->sent || memcmp(r->arguments.data, text, r->sent) != 0)) cancel(r);
    reply_set(r, &r->arguments, text, length);
}

/* Text before the call that is no call is content; white space at the end of the content waits for more content. */
static void announce(struct reply *r, const char *name, size_t length) {
    if (r->has_bad) {
        reply_put_content(r, r->raw_start, r->item_start);
        r->raw_start = r->item_start;
        r->has_bad = false;
    }
    reply_text_before_call(r);
    r->is_begun = true;
    r->sent = 0;
    reply_set(r, &r->begun_name, name, length);
    reply_send(r, &(struct reply_event){.kind = REPLY_CALL_BEGIN,
                                        .index = r->next_index++,
                                        .text = r->begun_name.data,
                                        .length = length,
                                        .id = r->id.length ? r->id.data : NULL,
                                        .id_length = r->id.length});
}

/* The offered tool that r->name means. Code has its tool by definition. */
static bool resolve(const struct reply *r, const char **name, size_t *length) {
    *name = r->name.data;
    *length = r->name.length;
    if (!r->name.length || r->n_calls + r->n_queued >= MAX_CALLS) return false;
    return r->block->flags & BLOCK_CODE || reply_tools_resolve(&r->tools, r->name.data, r->name.length, name, length);
}

void reply_begin_call(struct reply *r) {
    const char *name;
    size_t length;
    if (r->streams_arguments && !(r->block->flags & BLOCK_WHOLE) && resolve(r, &name, &length))
        announce(r, name, length);
}

void reply_stream_arguments(struct reply *r) {
    if (!r->is_begun || r->arguments.length <= r->sent) return;
    const char *text = r->arguments.data + r->sent;
    size_t n = r->arguments.length - r->sent;
    n -= utf8_incomplete_tail(text, n);
    if (!n) return;
    r->sent += n;
    reply_send(
        r, &(struct reply_event){.kind = REPLY_CALL_ARGUMENTS, .index = r->next_index - 1, .text = text, .length = n});
}

static bool enqueue(struct reply *r, const char *name, size_t length) {
    if (!array_reserve(&r->queue, &r->queue_capacity, r->n_queued + 1, sizeof *r->queue))
        return r->is_out_of_memory = true;
    struct queued_call *q = &r->queue[r->n_queued++];
    *q = (struct queued_call){.name = arena_copy(&r->queue_arena, name, length),
                              .name_length = length,
                              .arguments = arena_copy(&r->queue_arena, r->arguments.data, r->arguments.length),
                              .arguments_length = r->arguments.length,
                              .id_length = r->id.length,
                              .from = r->item_start,
                              .to = r->at,
                              .after_bad = r->has_bad};
    q->id = arena_copy(&r->queue_arena, r->id.length ? r->id.data : "", r->id.length);
    if (!q->name || !q->arguments || !q->id) r->is_out_of_memory = true;
    r->has_bad = false;
    return true;
}

static void complete(struct reply *r, const char *name, size_t length) {
    if (r->is_begun && (length != r->begun_name.length || memcmp(name, r->begun_name.data, length) != 0)) cancel(r);
    if (!r->is_begun) announce(r, name, length);
    reply_stream_arguments(r);
    reply_send(r, &(struct reply_event){.kind = REPLY_CALL_END,
                                        .index = r->next_index - 1,
                                        .id = r->id.length ? r->id.data : NULL,
                                        .id_length = r->id.length});
    r->is_begun = false;
    r->has_bad = false;
    reply_text_after_call(r);
    r->n_calls++;
}

bool reply_end_call(struct reply *r) {
    const char *name;
    size_t length;
    if (!resolve(r, &name, &length)) return false;
    r->n_block_calls++;
    if (r->block->flags & BLOCK_WHOLE) return enqueue(r, name, length);
    complete(r, name, length);
    r->raw_start = r->at;
    return true;
}

void reply_bad_call(struct reply *r) {
    cancel(r);
    r->has_bad = true;
}

void reply_send_queue(struct reply *r) {
    bool has_bad = r->has_bad;
    for (size_t i = 0; i < r->n_queued && !r->is_out_of_memory; i++) {
        const struct queued_call *q = &r->queue[i];
        r->item_start = q->from;
        r->has_bad = q->after_bad;
        reply_set(r, &r->name, q->name, q->name_length);
        reply_set(r, &r->id, q->id, q->id_length);
        reply_set(r, &r->arguments, q->arguments, q->arguments_length);
        complete(r, r->name.data, r->name.length);
        r->raw_start = q->to;
    }
    r->has_bad = has_bad;
}
