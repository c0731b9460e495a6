/* SPDX-License-Identifier: Apache-2.0 */
/* mlxcel detokenize: token ids to text. */
#include "cli/commands.h"
#include "cli/lines.h"
#include "cli/load.h"

#include "text/tokenizer.h"

#include "base/memory.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct job {
    struct tokenizer *tokenizer;
    struct detokenizer *stream; /* with --stream */
    bool skips_special;
    uint32_t *ids;
    size_t n_ids, capacity;
    struct buffer text;
};

static bool add_id(struct job *job, uint32_t id, struct mx_error *err) {
    if (!array_reserve(&job->ids, &job->capacity, job->n_ids + 1, sizeof *job->ids)) return error_memory(err, "ids");
    job->ids[job->n_ids++] = id;
    return true;
}

/* The pieces as a JSON list: one for each id that brought something to show, and what was held back at the end. */
static bool write_pieces(struct job *job, struct json_writer *out, struct mx_error *err) {
    bool ok = true;
    json_begin_array(out);
    for (size_t i = 0; i <= job->n_ids && ok; i++) {
        buffer_clear(&job->text);
        ok = i < job->n_ids ? detokenizer_push(job->stream, job->ids[i], &job->text, err)
                            : detokenizer_finish(job->stream, &job->text, err);
        if (ok && job->text.length) json_write_string_n(out, job->text.data, job->text.length);
    }
    json_end_array(out);
    return ok;
}

/* [1, 2, 3] -> "text", or with --stream ["te", "xt"] */
static bool detokenize_line(void *context, const struct json *value, struct json_writer *out, struct mx_error *err) {
    struct job *job = context;
    job->n_ids = 0;
    if (!json_is_array(value))
        return error_set(err, ERROR_FORMAT, "expected a list of ids, found %s", json_type_name(value));
    for (size_t i = 0; i < value->count; i++) {
        int64_t id = json_integer(&value->items[i], -1);
        if (id < 0 || id > UINT32_MAX) return error_set(err, ERROR_FORMAT, "item %zu is no token id", i);
        if (!add_id(job, (uint32_t)id, err)) return false;
    }
    if (job->stream) return write_pieces(job, out, err);
    buffer_clear(&job->text);
    if (!tokenizer_decode(job->tokenizer, job->ids, job->n_ids, job->skips_special, &job->text, err)) return false;
    json_write_string_n(out, job->text.data ? job->text.data : "", job->text.length);
    return true;
}

static bool add_ids(struct job *job, const char *text, struct mx_error *err) {
    uint32_t *ids = NULL;
    size_t n = 0;
    bool ok = parse_ids(text, "token ids", &ids, &n, err);
    for (size_t i = 0; i < n && ok; i++) ok = add_id(job, ids[i], err);
    free(ids);
    return ok;
}

static bool read_ids(struct job *job, const struct options *options, struct mx_error *err) {
    for (size_t i = 0; i < options->n_values[OPT_IDS]; i++)
        if (!add_ids(job, options->values[OPT_IDS][i], err)) return false;
    if (options->n_values[OPT_IDS]) return true;
    struct buffer text = {0};
    bool ok = read_standard_input(&text, err) && add_ids(job, text.data, err);
    buffer_free(&text);
    return ok;
}

static bool print_text(struct job *job, struct mx_error *err) {
    buffer_clear(&job->text);
    if (!job->stream && !tokenizer_decode(job->tokenizer, job->ids, job->n_ids, job->skips_special, &job->text, err))
        return false;
    for (size_t i = 0; job->stream && i <= job->n_ids; i++) {
        buffer_clear(&job->text);
        if (!(i < job->n_ids ? detokenizer_push(job->stream, job->ids[i], &job->text, err)
                             : detokenizer_finish(job->stream, &job->text, err)))
            return false;
        if (i == job->n_ids) break;
        fwrite(job->text.data, 1, job->text.length, stdout);
        fflush(stdout);
    }
    fwrite(job->text.data, 1, job->text.length, stdout);
    putchar('\n');
    return fflush(stdout) == 0 || error_set(err, ERROR_IO, "standard output: %s", strerror(errno));
}

static bool run(struct job *job, const struct options *options, struct mx_error *err) {
    char folder[4096];
    if (!options_exclude(options, OPT_JSONL, OPT_IDS, err)) return false;
    if (!load_model_path(options, folder, sizeof folder, err)) return false;
    job->tokenizer = tokenizer_open(folder, err);
    if (!job->tokenizer) return false;
    job->skips_special = options_flag(options, OPT_SKIP_SPECIAL);
    if (options_flag(options, OPT_STREAM)) {
        job->stream = detokenizer_create(job->tokenizer, job->skips_special, err);
        if (!job->stream) return false;
    }
    if (options_flag(options, OPT_JSONL)) return for_each_json_line(detokenize_line, job, err);
    return read_ids(job, options, err) && print_text(job, err);
}

int command_detokenize(const struct options *options) {
    struct mx_error err = {0};
    struct job job = {0};
    bool ok = run(&job, options, &err);
    detokenizer_destroy(job.stream);
    tokenizer_close(job.tokenizer);
    buffer_free(&job.text);
    free(job.ids);
    return ok ? 0 : command_fail(&err);
}
