/* SPDX-License-Identifier: Apache-2.0 */
/* mlxcel tokenize: text to token ids. */
#include "cli/commands.h"
#include "cli/lines.h"
#include "cli/load.h"

#include "text/tokenizer.h"

#include <stdio.h>
#include <string.h>

struct job {
    struct tokenizer *tokenizer;
    unsigned flags;
    struct token_list tokens;
};

/* "text" -> {"ids": [...], "tokens": [...], "offsets": [[start, end], ...]} */
static bool tokenize_line(void *context, const struct json *value, struct json_writer *out, struct mx_error *err) {
    struct job *job = context;
    struct token_list *list = &job->tokens;
    if (!json_is_string(value))
        return error_set(err, ERROR_FORMAT, "expected a string, found %s", json_type_name(value));
    if (!tokenizer_encode(job->tokenizer, value->string, value->count, job->flags | TOKENIZE_OFFSETS, list, err))
        return false;
    json_begin_object(out);
    json_write_key(out, "ids");
    json_begin_array(out);
    for (size_t i = 0; i < list->count; i++) json_write_integer(out, list->ids[i]);
    json_end_array(out);
    json_write_key(out, "tokens");
    json_begin_array(out);
    for (size_t i = 0; i < list->count; i++)
        json_write_string_n(out, list->texts.data + list->spans[i].text_start, list->spans[i].text_length);
    json_end_array(out);
    json_write_key(out, "offsets");
    json_begin_array(out);
    for (size_t i = 0; i < list->count; i++) {
        json_begin_array(out);
        json_write_integer(out, list->spans[i].start);
        json_write_integer(out, list->spans[i].end);
        json_end_array(out);
    }
    json_end_array(out);
    json_end_object(out);
    return true;
}

static void print_table(const struct token_list *list) {
    struct buffer quoted = {0};
    for (size_t i = 0; i < list->count; i++) {
        const struct token_span *span = &list->spans[i];
        buffer_clear(&quoted);
        json_append_quoted(&quoted, list->texts.data + span->text_start, span->text_length);
        printf("%8u  %6u-%-6u  %s\n", list->ids[i], span->start, span->end, quoted.data ? quoted.data : "");
    }
    buffer_free(&quoted);
}

static void print_ids(const struct token_list *list) {
    for (size_t i = 0; i < list->count; i++) printf(i ? " %u" : "%u", list->ids[i]);
    printf("\n");
}

static bool tokenize_text(struct job *job, const char *text, size_t length, bool shows, struct mx_error *err) {
    unsigned flags = job->flags | (shows ? TOKENIZE_OFFSETS : 0);
    if (!tokenizer_encode(job->tokenizer, text, length, flags, &job->tokens, err)) return false;
    if (shows)
        print_table(&job->tokens);
    else
        print_ids(&job->tokens);
    return true;
}

static bool run(struct job *job, const struct options *options, struct mx_error *err) {
    char folder[4096];
    const char *prompt = options_text(options, OPT_PROMPT);
    if (!options_exclude(options, OPT_JSONL, OPT_PROMPT, err) || !options_exclude(options, OPT_JSONL, OPT_SHOW, err))
        return false;
    if (!load_model_path(options, folder, sizeof folder, err)) return false;
    job->tokenizer = tokenizer_open(folder, err);
    if (!job->tokenizer) return false;
    job->flags = options_flag(options, OPT_NO_SPECIAL) ? 0 : TOKENIZE_SPECIAL;
    if (options_flag(options, OPT_JSONL)) return for_each_json_line(tokenize_line, job, err);
    bool shows = options_flag(options, OPT_SHOW);
    if (prompt) return tokenize_text(job, prompt, strlen(prompt), shows, err);
    struct buffer text = {0};
    bool ok = read_standard_input(&text, err) && tokenize_text(job, text.data, text.length, shows, err);
    buffer_free(&text);
    return ok;
}

int command_tokenize(const struct options *options) {
    struct mx_error err = {0};
    struct job job = {0};
    bool ok = run(&job, options, &err);
    token_list_free(&job.tokens);
    tokenizer_close(job.tokenizer);
    return ok ? 0 : command_fail(&err);
}
