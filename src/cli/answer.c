/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/answer.h"

#include "cli/constrain.h"

#include "base/clock.h"
#include "base/memory.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define DIM    "\033[2m"
#define NORMAL "\033[0m"

static bool write_text(struct answer *a, const char *text, size_t length) {
    if (!length) return true;
    progress_end(&a->progress);
    a->has_text = true;
    a->ends_with_newline = text[length - 1] == '\n';
    if (fwrite(text, 1, length, stdout) == length && fflush(stdout) == 0) return true;
    return error_set(&a->error, ERROR_IO, "cannot write the text: %s", strerror(errno));
}

static bool set_dim(struct answer *a, bool dim) {
    if (a->is_dim == dim || !isatty(STDOUT_FILENO)) return true;
    a->is_dim = dim;
    return fputs(dim ? DIM : NORMAL, stdout) >= 0;
}

/* Events of the reply parser; there are no calls where no tools are offered. */
static bool on_reply(void *context, const struct reply_event *event) {
    struct answer *a = context;
    if (event->kind == REPLY_CONTENT) return set_dim(a, false) && write_text(a, event->text, event->length);
    if (event->kind != REPLY_REASONING) return true;
    if (a->shows_reasoning) return set_dim(a, true) && write_text(a, event->text, event->length);
    a->has_hidden = true;
    progress_set(&a->progress, "thinking", a->n_generated, 0);
    return true;
}

/* A step of the reply parser failed: for its own reason, unless writing stopped it. */
static bool fail_reply(struct answer *a, const struct mx_error *reason) {
    if (!a->error.code) a->error = *reason;
    return false;
}

/* What the stream gave out goes to the terminal. */
static bool pass_on(struct answer *a) {
    const struct buffer *out = &a->stream.out;
    if (!out->length) return true;
    if (!buffer_append(&a->text, out->data, out->length)) return error_memory(&a->error, "answer");
    if (!a->reply) return write_text(a, out->data, out->length);
    struct mx_error reason = {0};
    return reply_push(a->reply, out->data, out->length, &reason) || fail_reply(a, &reason);
}

static enum verdict on_event(void *context, const struct engine_event *event) {
    struct answer *a = context;
    switch (event->kind) {
    case EVENT_STARTED: a->n_cached = event->n_cached; break;
    case EVENT_PROMPT: progress_set(&a->progress, "reading the prompt", event->n_computed, a->n_prompt); break;
    case EVENT_TOKEN:
        if (!a->first_token_ns) a->first_token_ns = clock_now_ns();
        a->n_generated = event->n_generated;
        if (!text_stream_push(&a->stream, event->token, &a->error) || !pass_on(a)) return VERDICT_STOP;
        if (a->constraint && constraint_is_complete(a->constraint, 0)) return VERDICT_STOP;
        return a->stream.is_stopped ? VERDICT_STOP : VERDICT_GO_ON;
    case EVENT_FINISHED:
        a->end_ns = clock_now_ns();
        if (!a->first_token_ns) a->first_token_ns = a->end_ns;
        a->is_finished = true;
        a->reason = event->reason;
        if (event->error) a->error = *event->error;
        break;
    }
    return VERDICT_GO_ON;
}

static bool has_token(void *context, const char *text) {
    uint32_t id;
    return tokenizer_find(context, text, strlen(text), &id);
}

/* The parser for what the model writes, told where the prompt ended. */
static bool open_reply(struct answer *a, const struct token_list *prompt, bool is_chat, struct mx_error *err) {
    struct session *s = a->session;
    const struct reply_format *format = NULL;
    if (is_chat) format = reply_format_detect(chat_template_text(s->chat, s->template_name), has_token, s->tokenizer);
    if (!text_stream_init(&a->stream, s->tokenizer, format, a->stops, a->stream.n_stops, err)) return false;
    if (!format) return true;
    struct buffer text = {0};
    size_t tail = prompt->count < 64 ? prompt->count : 64;
    bool ok = tokenizer_decode(s->tokenizer, prompt->ids + prompt->count - tail, tail, false, &text, err);
    /* No tools are offered here: what looks like a call is text. */
    static const struct json no_tools = {.type = JSON_ARRAY};
    struct reply_options options = {
        .format = format, .tools = &no_tools, .prompt = text.data, .prompt_length = text.length};
    if (ok) ok = (a->reply = reply_create(&options, on_reply, a, err)) != NULL;
    buffer_free(&text);
    return ok;
}

static bool take_stops(struct answer *a, const struct options *options, struct mx_error *err) {
    size_t n = options->n_values[OPT_STOP];
    a->stops = array_calloc(n, sizeof *a->stops);
    if (!a->stops) return error_memory(err, "--stop");
    for (size_t i = 0; i < n; i++)
        a->stops[i] = (struct stop_string){options->values[OPT_STOP][i], strlen(options->values[OPT_STOP][i])};
    a->stream.n_stops = n;
    return true;
}

static bool end_text(struct answer *a) {
    bool ok = text_stream_finish(&a->stream, &a->error) && pass_on(a);
    enum reply_finish reason = a->reason == FINISH_STOP ? REPLY_FINISH_STOP : REPLY_FINISH_LENGTH;
    struct mx_error failure = {0};
    if (ok && a->reply) ok = reply_finish(a->reply, reason, &failure) || fail_reply(a, &failure);
    return set_dim(a, false) && ok;
}

bool answer_run(struct answer *a, struct session *session, const struct options *options,
                const struct token_list *prompt, const struct sampling_params *sampling, int64_t max_tokens,
                bool is_chat, bool shows_reasoning, struct mx_error *err) {
    *a = (struct answer){.session = session, .n_prompt = prompt->count, .shows_reasoning = shows_reasoning};
    if (!take_stops(a, options, err) || !open_reply(a, prompt, is_chat, err)) return false;
    struct engine_request request = {.prompt = prompt->ids,
                                     .n_prompt = prompt->count,
                                     .max_tokens = max_tokens,
                                     .sampling = *sampling,
                                     .keeps = session->keeps,
                                     .on_event = on_event,
                                     .context = a};
    if (!constrain_answer(session, options, &a->constraint, err)) return false;
    if (a->constraint)
        request.mask =
            (struct token_mask){.context = a->constraint, .fill = constraint_fill, .accept = constraint_accept};
    uint64_t id;
    a->start_ns = clock_now_ns();
    if (!engine_submit(session->engine, &request, &id, err)) return false;
    progress_begin(&a->progress, "reading the prompt");
    while (!a->is_finished) {
        if (session_was_interrupted()) engine_cancel(session->engine, id);
        engine_step(session->engine);
    }
    if (a->constraint && constraint_failure(a->constraint)) a->error = *constraint_failure(a->constraint);
    if (!a->error.code) end_text(a);
    progress_end(&a->progress);
    if (a->has_hidden && !a->has_text) fprintf(stderr, "(nothing but reasoning; --show-reasoning shows it)\n");
    if (a->error.code) *err = a->error;
    return !a->error.code;
}

void answer_free(struct answer *a) {
    if (a->reply) reply_destroy(a->reply);
    constraint_destroy(a->constraint);
    text_stream_free(&a->stream);
    buffer_free(&a->text);
    free(a->stops);
    *a = (struct answer){0};
}

/* As the original counts: decode = generated tokens over the time after the first one was there. */
void answer_print_profile(const struct answer *a, bool whole_block) {
    double prefill = (double)(a->first_token_ns - a->start_ns) * 1e-9,
           decode = (double)(a->end_ns - a->first_token_ns) * 1e-9;
    if (whole_block) {
        fprintf(stderr,
                "[Profile Results]\n  Prompt tokens:    %zu\n  Generated tokens: %zu\n"
                "  Prefill:          %.2f ms (%.2f tok/s)\n  Decode:           %.2f ms (%.2f tok/s)\n",
                a->n_prompt, a->n_generated, prefill * 1e3, prefill > 0 ? (double)a->n_prompt / prefill : 0.0,
                decode * 1e3, decode > 0 ? (double)a->n_generated / decode : 0.0);
        return;
    }
    double all = prefill + decode;
    fprintf(stderr, "[Generated %zu tokens in %.2fs = %.2f tok/s]\n", a->n_generated, all,
            all > 0 ? (double)a->n_generated / all : 0.0);
}
