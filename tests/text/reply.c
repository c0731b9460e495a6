/* SPDX-License-Identifier: Apache-2.0 */
/* Replies: transcripts of every format, each cut at every byte, with and without streamed arguments, give the content,
 * reasoning and calls that their authors wrote down. Own transcripts lie in tests/data/replies.json; the shared ones
 * and the families' own chat templates are used when they are there. */
#include "tests/support/tap.h"

#include "base/file.h"
#include "base/utf8.h"
#include "text/reply.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FILE = 16 << 20, JSON_DEPTH = 256 };

struct transcript {
    const char *name, *raw;
    size_t length;
    struct reply_options options;
    enum reply_finish finish;
    const struct json *content, *reasoning, *calls, *ids;
    bool only_calls; /* the text that is kept is free */
};

/* ---- running ---- */

/* A sink that also looks at the form of the events. */
struct watch {
    struct reply_result result;
    bool is_open, is_bad;
};

static bool watch_event(void *context, const struct reply_event *e) {
    struct watch *w = context;
    bool begins = e->kind == REPLY_CALL_BEGIN, is_text = e->kind == REPLY_CONTENT || e->kind == REPLY_REASONING;
    if (e->text && utf8_valid_prefix(e->text, e->length) != e->length) w->is_bad = true;
    if (!is_text && begins == w->is_open) w->is_bad = true;
    if (is_text && (w->is_open || !e->length)) w->is_bad = true;
    if (begins) w->is_open = true;
    if (e->kind == REPLY_CALL_END || e->kind == REPLY_CALL_CANCEL) w->is_open = false;
    return reply_collect(&w->result, e);
}

/* Cut at `split`; beyond the end: into single bytes. */
static bool run(const struct transcript *t, size_t split, bool streams, struct watch *w) {
    struct reply_options options = t->options;
    options.streams_arguments = streams;
    struct reply *reply = reply_create(&options, watch_event, w, NULL);
    if (!reply) return false;
    bool ok = true;
    if (split <= t->length) {
        ok = reply_push(reply, t->raw, split, NULL) && reply_push(reply, t->raw + split, t->length - split, NULL);
    } else {
        for (size_t i = 0; ok && i < t->length; i++) ok = reply_push(reply, t->raw + i, 1, NULL);
    }
    ok = ok && reply_finish(reply, t->finish, NULL) && !w->is_open && !w->is_bad;
    reply_destroy(reply);
    return ok;
}

/* ---- comparing ---- */

static bool same_bytes(const char *a, size_t a_length, const char *b, size_t b_length) {
    return a_length == b_length && (!a_length || !memcmp(a, b, a_length));
}

static bool same_results(const struct reply_result *a, const struct reply_result *b) {
    if (!same_bytes(a->content.data, a->content.length, b->content.data, b->content.length)) return false;
    if (!same_bytes(a->reasoning.data, a->reasoning.length, b->reasoning.data, b->reasoning.length)) return false;
    if (a->n_calls != b->n_calls) return false;
    for (size_t i = 0; i < a->n_calls; i++) {
        const struct reply_call_text *x = &a->calls[i], *y = &b->calls[i];
        if (!same_bytes(x->name, x->name_length, y->name, y->name_length)) return false;
        if (!same_bytes(x->arguments, x->arguments_length, y->arguments, y->arguments_length)) return false;
        if (!same_bytes(x->id, x->id_length, y->id, y->id_length)) return false;
    }
    return true;
}

static bool same_values(const struct json *a, const struct json *b);

static bool same_members(const struct json *a, const struct json *b) {
    for (uint32_t i = 0; i < a->count; i++) {
        const struct json *other = NULL;
        for (uint32_t j = 0; j < b->count; j++)
            if (same_bytes(a->members[i].key, a->members[i].key_length, b->members[j].key, b->members[j].key_length))
                other = &b->members[j].value;
        if (!other || !same_values(&a->members[i].value, other)) return false;
    }
    return true;
}

/* As JSON values: numbers by value, keys in any order. */
static bool same_values(const struct json *a, const struct json *b) {
    if (json_is_number(a) && json_is_number(b)) return json_number(a, 0) == json_number(b, 0);
    if (a->type != b->type) return false;
    if (a->type == JSON_STRING) return same_bytes(a->string, a->count, b->string, b->count);
    if (a->type != JSON_ARRAY && a->type != JSON_OBJECT) return true;
    if (a->count != b->count) return false;
    if (a->type == JSON_OBJECT) return same_members(a, b);
    for (uint32_t i = 0; i < a->count; i++)
        if (!same_values(&a->items[i], &b->items[i])) return false;
    return true;
}

static bool is_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

/* Equal but for white space at both ends; an absent expectation is the empty text. */
static bool same_text(const struct buffer *got, const struct json *expected) {
    const char *a = got->data ? got->data : "", *b = json_is_string(expected) ? expected->string : "";
    size_t m = got->length, n = json_is_string(expected) ? expected->count : 0;
    while (m && is_space(*a)) a++, m--;
    while (m && is_space(a[m - 1])) m--;
    while (n && is_space(*b)) b++, n--;
    while (n && is_space(b[n - 1])) n--;
    return same_bytes(a, m, b, n);
}

static bool has_call(const struct reply_call_text *got, const struct json *expected, const struct json *id) {
    struct arena arena = {0};
    const struct json *arguments = json_parse(&arena, got->arguments, got->arguments_length, 0, JSON_DEPTH, NULL);
    bool ok = arguments && json_string_is(json_get(expected, "name"), got->name) &&
              same_values(arguments, json_get(expected, "arguments")) &&
              (!id || json_string_is(id, got->id ? got->id : ""));
    arena_free(&arena);
    return ok;
}

static bool is_expected(const struct transcript *t, const struct reply_result *result) {
    size_t n = json_is_array(t->calls) ? t->calls->count : 0;
    if (result->n_calls != n) return false;
    for (size_t i = 0; i < n; i++)
        if (!has_call(&result->calls[i], json_at(t->calls, i), json_at(t->ids, i))) return false;
    return t->only_calls || (same_text(&result->content, t->content) && same_text(&result->reasoning, t->reasoning));
}

static void note_result(const struct reply_result *result) {
    tap_note("content '%s', reasoning '%s'", result->content.data ? result->content.data : "",
             result->reasoning.data ? result->reasoning.data : "");
    for (size_t i = 0; i < result->n_calls; i++)
        tap_note("call %s %s", result->calls[i].name, result->calls[i].arguments);
}

/* The first cut that gives another result, or SIZE_MAX. */
static size_t find_bad_cut(const struct transcript *t, const struct reply_result *whole) {
    for (size_t split = 0; split <= t->length + 1; split++) {
        for (int streams = 0; streams < 2; streams++) {
            struct watch w = {0};
            bool ok = run(t, split, streams, &w) && same_results(whole, &w.result);
            reply_result_free(&w.result);
            if (!ok) return split;
        }
    }
    return SIZE_MAX;
}

static bool check(const struct transcript *t) {
    struct watch whole = {0};
    bool ran = run(t, t->length, false, &whole), right = ran && is_expected(t, &whole.result);
    size_t cut = right ? find_bad_cut(t, &whole.result) : SIZE_MAX;
    if (!right) {
        tap_note("%s: %s", t->name, ran ? "not the expected result" : "events out of order");
        note_result(&whole.result);
    } else if (cut != SIZE_MAX) {
        tap_note("%s: another result when cut at byte %zu of %zu", t->name, cut, t->length);
    }
    reply_result_free(&whole.result);
    return right && cut == SIZE_MAX;
}

/* ---- transcripts ---- */

static const struct json *read_file(struct arena *arena, const char *folder, const char *name) {
    struct mx_error err;
    size_t n;
    char *text = file_read(path_join(arena, folder, name), MAX_FILE, &n, &err);
    const struct json *value = NULL;
    if (text) {
        char *copy = arena_copy(arena, text, n);
        value = copy ? json_parse(arena, copy, n, 0, JSON_DEPTH, &err) : NULL;
        free(text);
    }
    if (!value) tap_note("%s: %s", name, err.message);
    return value;
}

static struct transcript read_transcript(struct arena *arena, const struct json *c, const struct reply_format *format,
                                         const struct json *tools) {
    const struct json *raw = json_get(c, "raw"), *prompt = json_get(c, "prompt_ends_with"), *name = json_get(c, "name");
    struct transcript t = {.raw = raw->string, .length = raw->count, .options = {.format = format, .tools = tools}};
    t.name = json_string_copy(arena, name ? name : json_get(c, "id"));
    if (json_get(c, "tools")) t.options.tools = json_get(c, "tools");
    if (json_is_string(prompt)) {
        t.options.prompt = prompt->string;
        t.options.prompt_length = prompt->count;
    }
    t.finish = json_string_is(json_get(c, "finish_reason"), "length") ? REPLY_FINISH_LENGTH : REPLY_FINISH_STOP;
    t.only_calls = json_string_is(json_get(c, "check"), "calls");
    return t;
}

static const struct reply_format *format_of(struct arena *arena, const struct json *name) {
    const char *text = json_string_copy(arena, name);
    const struct reply_format *format = text ? reply_format_find(text) : NULL;
    if (!format) tap_note("no format '%s'", text ? text : "");
    return format;
}

static void own_transcripts_are_understood(void) {
    struct arena arena = {0};
    const struct json *file = read_file(&arena, SOURCE_DIR "/tests/data", "replies.json");
    const struct json *cases = json_get(file, "cases");
    size_t n = 0, n_right = 0;
    for (size_t i = 0; cases && i < cases->count; i++) {
        const struct json *c = json_at(cases, i);
        const struct reply_format *format = format_of(&arena, json_get(c, "format"));
        struct transcript t = read_transcript(&arena, c, format, json_get(file, "tools"));
        t.content = json_get(c, "content");
        t.reasoning = json_get(c, "reasoning");
        t.calls = json_get(c, "calls");
        t.ids = json_get(c, "ids");
        n++;
        n_right += format && check(&t);
    }
    tap_ok(n > 500 && n_right == n, "own_transcripts_are_understood (%zu of %zu)", n_right, n);
    arena_free(&arena);
}

/* One file of shared transcripts; advisory ones are counted, not required. */
static void shared_file_is_understood(const char *folder, const char *name, const struct json *tools, size_t *total) {
    struct arena arena = {0};
    const struct json *file = read_file(&arena, folder, name), *cases = json_get(file, "cases");
    const struct reply_format *format = format_of(&arena, json_get(file, "format"));
    size_t n = 0, n_right = 0, n_advisory = 0, n_advised = 0;
    for (size_t i = 0; format && cases && i < cases->count; i++) {
        const struct json *c = json_at(cases, i), *expected = json_get(c, "expected");
        struct transcript t = read_transcript(&arena, c, format, tools);
        bool is_advisory = json_string_is(json_get(c, "check"), "advisory");
        t.content = json_get(expected, "content");
        t.reasoning = json_get(expected, "reasoning_content");
        t.calls = json_get(expected, "tool_calls");
        t.ids = json_get(c, "expected_ids");
        bool right = check(&t);
        n += !is_advisory;
        n_right += !is_advisory && right;
        n_advisory += is_advisory;
        n_advised += is_advisory && right;
    }
    *total += n + n_advisory;
    tap_ok(n && n_right == n, "shared_transcripts_are_understood: %s (%zu of %zu; advisory %zu of %zu)", name, n_right,
           n, n_advised, n_advisory);
    arena_free(&arena);
}

static void shared_transcripts_are_understood(const char *shared) {
    struct arena arena = {0};
    char **names;
    size_t n_names = 0, total = 0;
    const char *folder = path_join(&arena, shared, "data/toolcalls");
    const struct json *tools = read_file(&arena, folder, "tools.json");
    folder_list(&arena, folder, ".json", &names, &n_names, NULL);
    for (size_t i = 0; i < n_names; i++)
        if (strcmp(names[i], "tools.json") != 0) shared_file_is_understood(folder, names[i], tools, &total);
    tap_ok(total >= 374, "all_shared_transcripts_were_run (%zu)", total);
    arena_free(&arena);
}

/* ---- detection ---- */

static void templates_tell_the_format(const char *shared) {
    static const char *const expected[][2] = {
        {"openai-gpt-oss-120b", "harmony"},
        {"ollama-glimmer", "muse-glimmer"},
        {"MiniMax-M2", "minimax-m2"},
        {"ByteDance-Seed-OSS", "seed-oss"},
        {"MiroThinker", "mirothinker"},
        {"ovms-minicpm5", "minicpm-5"},
        {"GLM-4.6", "glm-4.5"},
        {"zai-org--GLM-5.1", "glm-4.5"},
        {"Qwen3-Coder", "qwen3-coder"},
        {"Qwen3.5-4B", "qwen3-coder"},
        {"NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "qwen3-coder"},
        {"StepFun3.5-Flash", "qwen3-coder"},
        {"meetkai-functionary-medium-v3.1", "functionary-v3.1"},
        {"meetkai-functionary-medium-v3.2", "functionary-v3.2"},
        {"deepseek-ai-DeepSeek-V3.2", "deepseek-v3.2"},
        {"deepseek-ai-DeepSeek-R1-Distill-Qwen-32B", "deepseek-v3"},
        {"deepseek-ai-DeepSeek-V3.1", "deepseek-v3.1"},
        {"moonshotai-Kimi-K2", "kimi-k2"},
        {"mistralai-Ministral-3-14B-Reasoning-2512", "mistral-v11"},
        {"mistralai-Mistral-Nemo-Instruct-2407", "mistral-v3"},
        {"google-gemma-4-31B-it", "gemma4"},
        {"Apertus-8B-Instruct", "apertus"},
        {"upstage-Solar-Open-100B", "solar-open"},
        {"CohereForAI-c4ai-command-r7b-12-2024-tool_use", "command-r7b"},
        {"CohereForAI-c4ai-command-r-plus-tool_use", "command-r"},
        {"openbmb--MiniCPM3-4B", "minicpm-3"},
        {"LiquidAI--LFM2.5-VL-450M", "lfm2"},
        {"NVIDIA-Nemotron-Nano-v2", "nemotron-v2"},
        {"vllm-olmo3", "olmo3"},
        {"microsoft--Phi-4-mini-instruct", "phi-4-mini"},
        {"ibm-granite-granite-3.3-2B-Instruct", "granite-3"},
        {"vllm-granite_20b_fc", "granite-3"},
        {"ibm-granite-granite-4.0", "hermes"},
        {"vllm-internlm2_tools", "internlm2"},
        {"GigaChat3-10B-A1.8B", "gigachat-3"},
        {"vllm-hunyuan_a13b", "hunyuan"},
        {"vllm-minimax_m1", "minimax-m1"},
        {"Qwen-Qwen3-0.6B", "hermes"},
        {"NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use", "hermes"},
        {"vllm-llama4_pythonic", "pythonic"},
        {"vllm-toolace", "pythonic"},
        {"meta-llama-Llama-3.1-8B-Instruct", "llama3-json"},
        {"meta-llama-Llama-3.2-3B-Instruct", "llama3-json"},
        {"vllm-xlam_qwen", "xlam"},
        {"google-gemma-2-2b-it", "generic-json"},
        {"llama", "generic-json"},
    };
    size_t n = sizeof expected / sizeof *expected, n_right = 0;
    for (size_t i = 0; i < n; i++) {
        struct arena arena = {0};
        size_t length;
        char *path = arena_printf(&arena, "%s/data/templates/%s.jinja", shared, expected[i][0]);
        char *text = file_read(path, MAX_FILE, &length, NULL);
        const char *found = text ? reply_format_name(reply_format_detect(text, NULL, NULL)) : "no such file";
        if (!strcmp(found, expected[i][1]))
            n_right++;
        else
            tap_note("%s: %s, expected %s", expected[i][0], found, expected[i][1]);
        free(text);
        arena_free(&arena);
    }
    tap_ok(n_right == n, "templates_tell_the_format (%zu of %zu)", n_right, n);
}

static bool is_listed(void *context, const char *text) {
    for (const char *const *token = context; *token; token++)
        if (!strcmp(*token, text)) return true;
    return false;
}

static void vocabularies_tell_the_format(void) {
    static const struct {
        const char *tokens[4], *format;
    } cases[] = {{{"<s>", "[TOOL_CALLS]", "[ARGS]"}, "mistral-v11"},
                 {{"[TOOL_CALLS]"}, "mistral-v3"},
                 {{"<start_function_call>", "<escape>"}, "functiongemma"},
                 {{"<|channel|>", "<|constrain|>"}, "harmony"},
                 {{"<|tool_calls_section_begin|>"}, "kimi-k2"},
                 {{"<think>", "</think>"}, "generic-json"}};
    bool ok = true;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        void *tokens = (void *)(uintptr_t)cases[i].tokens;
        ok &= !strcmp(reply_format_name(reply_format_detect("{{ messages }}", is_listed, tokens)), cases[i].format);
    }
    tap_ok(ok, "vocabularies_tell_the_format");
}

static void formats_name_their_tokens(void) {
    const struct reply_format *harmony = reply_format_find("harmony"), *gemma = reply_format_find("gemma4");
    tap_ok(reply_format_has_marker(harmony, "<|constrain|>", 13) &&
               reply_format_has_marker(harmony, "<|return|>", 10) && reply_format_has_marker(gemma, "<|channel>", 10) &&
               reply_format_has_marker(gemma, "<|\"|>", 5) && !reply_format_has_marker(gemma, "<bos>", 5) &&
               !reply_format_has_marker(reply_format_find("none"), "<s>", 3),
           "formats_name_their_tokens");
}

/* ---- streaming ---- */

struct growth {
    size_t n_arguments, n_begins, longest;
};

static bool watch_growth(void *context, const struct reply_event *e) {
    struct growth *g = context;
    g->n_begins += e->kind == REPLY_CALL_BEGIN;
    g->n_arguments += e->kind == REPLY_CALL_ARGUMENTS;
    if (e->kind == REPLY_CALL_ARGUMENTS && e->length > g->longest) g->longest = e->length;
    return true;
}

/* A long string argument leaves piece by piece, in every style that can tell early. */
static void arguments_leave_as_they_grow(void) {
    static const char *const styles[][3] = {
        {"hermes", "<tool_call>{\"name\": \"f\", \"arguments\": {\"s\": \"", "\"}}</tool_call>"},
        {"mistral-v11", "[TOOL_CALLS]f[ARGS]{\"s\": \"", "\"}"},
        {"qwen3-coder", "<tool_call>\n<function=f>\n<parameter=s>\n", "\n</parameter>\n</function>\n</tool_call>"},
        {"harmony", "<|channel|>commentary to=functions.f<|message|>{\"s\": \"", "\"}<|call|>"},
        {"apertus", "<|tools_prefix|>[{\"f\": {\"s\": \"", "\"}}]<|tools_suffix|>"},
    };
    static const char tools[] = "[{\"name\":\"f\",\"parameters\":{\"properties\":{\"s\":{\"type\":\"string\"}}}}]";
    for (size_t i = 0; i < sizeof styles / sizeof *styles; i++) {
        struct arena arena = {0};
        struct growth g = {0};
        struct reply_options options = {.format = reply_format_find(styles[i][0]), .streams_arguments = true};
        options.tools = json_parse(&arena, tools, sizeof tools - 1, 0, JSON_DEPTH, NULL);
        struct reply *reply = reply_create(&options, watch_growth, &g, NULL);
        bool ok = reply && reply_push(reply, styles[i][1], strlen(styles[i][1]), NULL);
        for (int j = 0; ok && j < 100; j++) ok = reply_push(reply, "ten bytes ", 10, NULL);
        bool early = g.n_begins == 1 && g.n_arguments > 90;
        ok = ok && reply_push(reply, styles[i][2], strlen(styles[i][2]), NULL) && reply_finish(reply, 0, NULL);
        tap_ok(ok && early && g.longest < 40, "arguments_leave_as_they_grow: %s", styles[i][0]);
        reply_destroy(reply);
        arena_free(&arena);
    }
}

static bool stop_at_once(void *context, const struct reply_event *e) {
    (void)e;
    return --*(int *)context > 0;
}

static void a_sink_can_stop_the_parser(void) {
    int left = 2;
    struct mx_error err = {0};
    struct reply_options options = {.format = reply_format_find("none")};
    struct reply *reply = reply_create(&options, stop_at_once, &left, &err);
    bool first = reply_push(reply, "a", 1, &err), second = reply_push(reply, "b", 1, &err);
    tap_ok(first && !second && err.code == ERROR_CANCELLED, "a_sink_can_stop_the_parser");
    reply_destroy(reply);
}

/* Many broken openings must not make the work grow with the square of the text: 1 MB of each within the time that the
 * test suite allows (a quadratic parser would need minutes). */
static void broken_openings_cost_linear_time(void) {
    static const char *const pieces[][3] = {
        {"hermes", "", "<tool_call>"},
        {"hermes", "", "<tool_call>{\"name\":\""},
        {"hermes", "", "<tool_call>{"},
        {"hermes", "<tool_call>f", " "},
        {"qwen3-coder", "", "<tool_call><function=f><parameter=s>"},
        {"qwen3-coder", "<tool_call><function=f><parameter=s>", "</parameter>\n"},
        {"qwen3-coder", "<tool_call><function=f><parameter=s></parameter>", " "},
        {"glm-4.5", "", "<tool_call>f<arg_key>k</arg_key><arg_value>"},
        {"harmony", "", "<|start|>assistant to=f<|channel|>"},
        {"pythonic", "", "["},
        {"lfm2", "", "<|tool_call_start|>[f("},
        {"lfm2", "<|tool_call_start|>[f", " "},
        {"gemma4", "", "<|tool_call>call:f{a:<|\"|>"},
        {"generic-json", "[", "{\"name\":1},"},
        {"command-r7b", "", "<co"},
        {"reasoning", "<think>", " "},
        {"none", "", "\n"},
    };
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        struct buffer text = {0};
        buffer_puts(&text, pieces[i][1]);
        while (text.length < 1000000) buffer_puts(&text, pieces[i][2]);
        struct watch w = {0};
        struct reply_options options = {.format = reply_format_find(pieces[i][0])};
        struct reply *reply = reply_create(&options, watch_event, &w, NULL);
        bool ok = true;
        for (size_t at = 0; ok && at < text.length; at += 100)
            ok = reply_push(reply, text.data + at, text.length - at < 100 ? text.length - at : 100, NULL);
        ok = ok && reply_finish(reply, REPLY_FINISH_LENGTH, NULL);
        tap_ok(ok, "broken_openings_cost_linear_time: %s %s%s...", pieces[i][0], pieces[i][1], pieces[i][2]);
        reply_destroy(reply);
        reply_result_free(&w.result);
        buffer_free(&text);
    }
}

int main(void) {
    const char *shared = shared_folder();
    own_transcripts_are_understood();
    vocabularies_tell_the_format();
    formats_name_their_tokens();
    arguments_leave_as_they_grow();
    a_sink_can_stop_the_parser();
    broken_openings_cost_linear_time();
    if (shared) {
        shared_transcripts_are_understood(shared);
        templates_tell_the_format(shared);
    } else {
        tap_skip("shared_transcripts_are_understood", SHARED_ABSENT);
        tap_skip("templates_tell_the_format", SHARED_ABSENT);
    }
    return tap_done();
}
