/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: model output. The first bytes choose format, tools, prompt and cuts, the rest is the text. Beside memory
 * errors it finds results that depend on the cut or on streamed arguments, deltas that are no UTF-8, arguments that are
 * no JSON object, calls of tools that were not offered, and text lost by a format without markers. */
#include "text/reply.h"

#include "base/arena.h"
#include "base/utf8.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char tools_text[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"type\":\"object\",\"properties\":{"
    "\"s\":{\"type\":\"string\"},\"n\":{\"type\":\"integer\"},\"o\":{\"anyOf\":[{\"type\":\"object\"},{\"type\":"
    "\"null\"}]},"
    "\"u\":{\"type\":[\"string\",\"number\"]}}}}},{\"name\":\"get_time\",\"input_schema\":{\"type\":\"object\"}}]";

struct run {
    struct reply_result result;
    bool is_utf8; /* the whole text is */
    bool has_tools, is_open;
};

static void expect(bool claim) {
    if (!claim) abort();
}

static bool check_and_collect(void *context, const struct reply_event *event) {
    struct run *run = context;
    if (run->is_utf8 && event->text) expect(utf8_valid_prefix(event->text, event->length) == event->length);
    if (event->kind == REPLY_CALL_BEGIN) {
        expect(!run->is_open);
        run->is_open = true;
        if (run->has_tools)
            expect((event->length == 1 && event->text[0] == 'f') ||
                   (event->length == 8 && !memcmp(event->text, "get_time", 8)) || !memcmp(event->text, "python", 6));
    } else if (event->kind == REPLY_CALL_ARGUMENTS || event->kind == REPLY_CALL_END ||
               event->kind == REPLY_CALL_CANCEL) {
        expect(run->is_open);
        if (event->kind != REPLY_CALL_ARGUMENTS) run->is_open = false;
    }
    return reply_collect(&run->result, event);
}

static void parse(struct run *run, const struct reply_options *options, const char *text, size_t length, size_t piece,
                  enum reply_finish finish) {
    struct reply *reply = reply_create(options, check_and_collect, run, NULL);
    if (!reply) return;
    for (size_t at = 0; at < length; at += piece)
        expect(reply_push(reply, text + at, length - at < piece ? length - at : piece, NULL));
    expect(reply_finish(reply, finish, NULL));
    reply_destroy(reply);
    expect(!run->is_open);
}

static bool same(const char *a, size_t a_length, const char *b, size_t b_length) {
    return a_length == b_length && (!a_length || !memcmp(a, b, a_length));
}

static void compare(const struct reply_result *a, const struct reply_result *b) {
    expect(same(a->content.data, a->content.length, b->content.data, b->content.length));
    expect(same(a->reasoning.data, a->reasoning.length, b->reasoning.data, b->reasoning.length));
    expect(a->n_calls == b->n_calls);
    for (size_t i = 0; i < a->n_calls; i++) {
        const struct reply_call_text *x = &a->calls[i], *y = &b->calls[i];
        expect(same(x->name, x->name_length, y->name, y->name_length));
        expect(same(x->arguments, x->arguments_length, y->arguments, y->arguments_length));
        expect(same(x->id, x->id_length, y->id, y->id_length));
        struct arena arena = {0};
        expect(json_is_object(json_parse(&arena, x->arguments, x->arguments_length, JSON_STRICT, 1000, NULL)));
        arena_free(&arena);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const prompts[] = {"<think>\n", "<|start|>assistant<|channel|>analysis<|message|>", "x",
                                          "<|channel>thought\n"};
    if (size < 3) return 0;
    size_t n_formats = 0;
    while (reply_format_at(n_formats)) n_formats++;
    struct arena arena = {0};
    struct reply_options options = {.format = reply_format_at(data[0] % n_formats)};
    if (data[1] & 1) options.tools = json_parse(&arena, tools_text, sizeof tools_text - 1, JSON_STRICT, 16, NULL);
    if (data[1] & 2) {
        options.prompt = prompts[data[1] >> 2 & 3];
        options.prompt_length = strlen(options.prompt);
    }
    enum reply_finish finish = data[1] & 16 ? REPLY_FINISH_LENGTH : REPLY_FINISH_STOP;
    const char *text = (const char *)data + 3;
    size_t length = size - 3, piece = 1 + data[2] % 32;
    struct run whole = {.has_tools = data[1] & 1, .is_utf8 = utf8_valid_prefix(text, length) == length};
    struct run pieces = whole, streamed = whole;
    parse(&whole, &options, text, length, length ? length : 1, finish);
    parse(&pieces, &options, text, length, piece, finish);
    options.streams_arguments = true;
    parse(&streamed, &options, text, length, piece, finish);
    compare(&whole.result, &pieces.result);
    compare(&whole.result, &streamed.result);
    if (options.format == reply_format_find("none"))
        expect(same(whole.result.content.data, whole.result.content.length, text, length));
    reply_result_free(&whole.result);
    reply_result_free(&pieces.result);
    reply_result_free(&streamed.result);
    arena_free(&arena);
    return 0;
}
