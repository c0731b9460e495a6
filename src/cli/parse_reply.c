/* SPDX-License-Identifier: Apache-2.0 */
/* mlxcel parse-reply: shows how a model's output is taken apart. With --jsonl one case a line, {"raw", "tools",
 * "prompt_ends_with", "finish_reason"}; without, stdin is the output itself and every tool name counts. */
#include "cli/commands.h"
#include "cli/lines.h"

#include "text/reply.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct reply_case {
    const char *raw;
    size_t length;
    struct reply_options options;
    enum reply_finish finish;
};

/* Feeds the text cut at `split`, or byte by byte where split is beyond the end. */
static bool parse_cut(const struct reply_case *c, size_t split, bool streams, struct reply_result *result,
                      struct mx_error *err) {
    struct reply_options options = c->options;
    options.streams_arguments = streams;
    struct reply *reply = reply_create(&options, reply_collect, result, err);
    if (!reply) return false;
    bool ok = true;
    if (split <= c->length) {
        ok = reply_push(reply, c->raw, split, err) && reply_push(reply, c->raw + split, c->length - split, err);
    } else {
        for (size_t i = 0; ok && i < c->length; i++) ok = reply_push(reply, c->raw + i, 1, err);
    }
    ok = ok && reply_finish(reply, c->finish, err);
    reply_destroy(reply);
    return ok;
}

static bool same(const char *a, size_t a_length, const char *b, size_t b_length) {
    return a_length == b_length && (!a_length || !memcmp(a, b, a_length));
}

static bool is_equal(const struct reply_result *a, const struct reply_result *b) {
    if (!same(a->content.data, a->content.length, b->content.data, b->content.length)) return false;
    if (!same(a->reasoning.data, a->reasoning.length, b->reasoning.data, b->reasoning.length)) return false;
    if (a->n_calls != b->n_calls) return false;
    for (size_t i = 0; i < a->n_calls; i++) {
        const struct reply_call_text *x = &a->calls[i], *y = &b->calls[i];
        if (!same(x->name, x->name_length, y->name, y->name_length) ||
            !same(x->arguments, x->arguments_length, y->arguments, y->arguments_length) ||
            !same(x->id, x->id_length, y->id, y->id_length))
            return false;
    }
    return true;
}

/* Every cut into two pieces, and single bytes, with and without streamed arguments. */
static bool check_splits(const struct reply_case *c, const struct reply_result *whole, struct mx_error *err) {
    for (size_t split = 0; split <= c->length + 1; split++) {
        for (int streams = 0; streams < 2; streams++) {
            struct reply_result result = {0};
            bool ok = parse_cut(c, split, streams, &result, err);
            bool agrees = ok && is_equal(whole, &result);
            reply_result_free(&result);
            if (!ok) return false;
            if (!agrees)
                return error_set(err, ERROR_FORMAT, "the result differs when the text is cut at byte %zu%s", split,
                                 streams ? " and arguments are streamed" : "");
        }
    }
    return true;
}

/* JSON text without white space between its tokens. */
static void append_compact(struct buffer *out, const char *text, size_t length) {
    bool in_string = false;
    for (size_t i = 0; i < length; i++) {
        if (in_string && text[i] == '\\' && i + 1 < length)
            buffer_putc(out, text[i++]);
        else if (text[i] == '"')
            in_string = !in_string;
        else if (!in_string && (text[i] == ' ' || text[i] == '\n' || text[i] == '\t' || text[i] == '\r'))
            continue;
        buffer_putc(out, text[i]);
    }
}

static void write_result(struct json_writer *w, const struct reply_result *result) {
    json_begin_object(w);
    json_add_buffer(w, "content", &result->content);
    json_add_buffer(w, "reasoning_content", &result->reasoning);
    json_write_key(w, "tool_calls");
    json_begin_array(w);
    for (size_t i = 0; i < result->n_calls; i++) {
        json_begin_object(w);
        json_add_text(w, "name", result->calls[i].name, result->calls[i].name_length);
        json_add_raw(w, "arguments", "", 0);
        append_compact(w->out, result->calls[i].arguments, result->calls[i].arguments_length);
        json_end_object(w);
    }
    json_end_array(w);
    json_end_object(w);
}

static bool read_case(const struct json *line, struct reply_case *c, struct mx_error *err) {
    const struct json *raw = json_get(line, "raw"), *tools = json_get(line, "tools");
    const struct json *prompt = json_get(line, "prompt_ends_with"), *finish = json_get(line, "finish_reason");
    if (!json_is_string(raw))
        return error_set(err, ERROR_FORMAT, "'raw' is %s, expected a string", json_type_name(raw));
    if (!json_is_null(tools) && !json_is_array(tools))
        return error_set(err, ERROR_FORMAT, "'tools' is %s, expected an array", json_type_name(tools));
    if (!json_is_null(prompt) && !json_is_string(prompt))
        return error_set(err, ERROR_FORMAT, "'prompt_ends_with' is %s, expected a string", json_type_name(prompt));
    c->raw = raw->string;
    c->length = raw->count;
    c->options.tools = tools;
    if (json_is_string(prompt)) {
        c->options.prompt = prompt->string;
        c->options.prompt_length = prompt->count;
    }
    c->finish = json_string_is(finish, "length") ? REPLY_FINISH_LENGTH : REPLY_FINISH_STOP;
    return true;
}

static bool run_case(const struct reply_case *c, bool splits, struct json_writer *out, struct mx_error *err) {
    struct reply_result result = {0};
    bool ok = parse_cut(c, c->length, false, &result, err) && (!splits || check_splits(c, &result, err));
    if (ok) write_result(out, &result);
    reply_result_free(&result);
    return ok;
}

struct job {
    const struct reply_format *format;
    bool splits;
};

static bool run_line(void *context, const struct json *value, struct json_writer *out, struct mx_error *err) {
    const struct job *job = context;
    struct reply_case c = {.options = {.format = job->format}};
    return read_case(value, &c, err) && run_case(&c, job->splits, out, err);
}

static bool run_text(const struct job *job, struct mx_error *err) {
    struct buffer text = {0}, out = {0};
    struct json_writer writer = {.out = &out};
    bool ok = read_standard_input(&text, err);
    struct reply_case c = {.raw = text.data, .length = text.length, .options = {.format = job->format}};
    ok = ok && run_case(&c, job->splits, &writer, err);
    if (ok && !buffer_putc(&out, '\n')) ok = error_memory(err, "output");
    if (ok && (fwrite(out.data, 1, out.length, stdout) != out.length || fflush(stdout) != 0))
        ok = error_set(err, ERROR_IO, "standard output: %s", strerror(errno));
    buffer_free(&text);
    buffer_free(&out);
    return ok;
}

static void unknown_format(const char *name, struct mx_error *err) {
    struct buffer names = {0};
    for (size_t i = 0; reply_format_at(i); i++) {
        const char *known = reply_format_name(reply_format_at(i));
        if (i && !strcmp(known, reply_format_name(reply_format_at(i - 1)))) continue;
        buffer_printf(&names, "%s%s", i ? " " : "", known);
    }
    error_set(err, ERROR_USAGE, "--format: '%s' is not one of %s", name, names.data ? names.data : "the known formats");
    buffer_free(&names);
}

int command_parse_reply(const struct options *options) {
    struct mx_error err = {0};
    const char *name = options_text(options, OPT_FORMAT);
    struct job job = {.format = name ? reply_format_find(name) : NULL, .splits = options_flag(options, OPT_SPLIT)};
    bool ok = job.format != NULL;
    if (!name)
        error_set(&err, ERROR_USAGE, "--format NAME is needed");
    else if (!ok)
        unknown_format(name, &err);
    else
        ok = options_flag(options, OPT_JSONL) ? for_each_json_line(run_line, &job, &err) : run_text(&job, &err);
    return ok ? 0 : command_fail(&err);
}
