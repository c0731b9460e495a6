/* SPDX-License-Identifier: Apache-2.0 */
/* `mlxcel apply-template`: the prompt that a conversation becomes, and nothing else.
 *
 * With --jsonl each line of stdin is {"template": TEXT, "context": {every variable}} and gives {"text"} or
 * {"error": true, "kind", "message"}; a line without a template uses the model's. */
#include "cli/commands.h"
#include "cli/load.h"
#include "cli/template.h"

#include "base/file.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_INPUT_BYTES ((size_t)256 << 20)
#define MAX_DEPTH       400
#define JSON_FLAGS      (JSON_ALLOW_NAN | JSON_PYTHON_INTEGERS)

/* ---- the template ---- */

static struct chat_template *open_template(const struct options *options, const char **name, struct mx_error *err) {
    char folder[PATH_MAX];
    bool has_folder = options_is_set(options, OPT_MODEL) || !template_is_given(options);
    if (has_folder && !load_model_path(options, folder, sizeof folder, err)) return NULL;
    if (has_folder && !file_is_directory(folder)) {
        error_set(err, ERROR_IO, "%s: no such folder", folder);
        return NULL;
    }
    return template_open(options, has_folder ? folder : NULL, name, err);
}

/* ---- one conversation ---- */

struct inputs {
    struct arena arena;
    char *texts[2];
    const struct json *messages, *tools, *kwargs;
};

static bool read_array(struct inputs *in, int slot, const char *option, const char *path, const struct json **array,
                       struct mx_error *err) {
    size_t length;
    in->texts[slot] = file_read(strcmp(path, "-") ? path : "/dev/stdin", MAX_INPUT_BYTES, &length, err);
    if (!in->texts[slot]) return false;
    *array = json_parse(&in->arena, in->texts[slot], length, JSON_FLAGS, MAX_DEPTH, err);
    if (!*array) return error_prefix(err, "%s", path);
    return json_is_array(*array) || json_is_null(*array) ||
           error_set(err, ERROR_USAGE, "%s: %s holds %s, expected an array", option, path, json_type_name(*array));
}

static bool read_inputs(const struct options *options, struct inputs *in, struct mx_error *err) {
    const char *messages = options_text(options, OPT_MESSAGES), *tools = options_text(options, OPT_TOOLS);
    if (!messages) return error_set(err, ERROR_USAGE, "--messages FILE is needed (see mlxcel apply-template --help)");
    if (!read_array(in, 0, "--messages", messages, &in->messages, err) ||
        (tools && !read_array(in, 1, "--tools", tools, &in->tools, err)))
        return false;
    return template_kwargs(options, &in->arena, &in->kwargs, err);
}

static int apply_once(const struct options *options, const struct chat_template *t, const char *name) {
    struct inputs in = {0};
    struct buffer out = {0};
    struct mx_error err = {0};
    bool continues = options_flag(options, OPT_CONTINUE_FINAL);
    bool ok = read_inputs(options, &in, &err);
    if (ok) {
        struct chat_request request = {.messages = in.messages,
                                       .tools = in.tools,
                                       .kwargs = in.kwargs,
                                       .name = name,
                                       .add_generation_prompt = !continues,
                                       .continue_final_message = continues};
        ok = chat_template_render(t, &request, NULL, &out, NULL, &err);
    }
    int status = !ok ? command_fail(&err) : out.length ? command_print(&out) : 0;
    buffer_free(&out);
    for (int i = 0; i < 2; i++) free(in.texts[i]);
    arena_free(&in.arena);
    return status;
}

/* ---- one case a line ---- */

struct line_state {
    const struct chat_template *model;
    const char *name; /* of the model's template, or NULL */
    struct jinja_limits limits;
    struct jinja_template *compiled; /* of the last template text, which often comes again */
    struct buffer compiled_text;
};

static void write_failure(struct json_writer *w, const char *kind, const char *message, size_t length) {
    json_begin_object(w);
    json_add_bool(w, "error", true);
    json_add_string(w, "kind", kind);
    json_add_text(w, "message", message ? message : "", length);
    json_end_object(w);
}

static const struct jinja_template *compile_line(struct line_state *s, const struct json *text,
                                                 struct jinja_failure *failure, struct mx_error *err) {
    struct buffer *known = &s->compiled_text;
    if (s->compiled && known->length == text->count && !memcmp(known->data, text->string, text->count))
        return s->compiled;
    jinja_free(s->compiled);
    s->compiled = jinja_compile_explained(text->string, text->count, failure, err);
    buffer_clear(known);
    if (!buffer_append(known, text->string, text->count)) {
        jinja_free(s->compiled);
        s->compiled = NULL;
        error_memory(err, "chat template");
    }
    return s->compiled;
}

static bool render_line(struct line_state *s, const struct json *line, struct buffer *out,
                        struct jinja_failure *failure, struct mx_error *err) {
    const struct json *text = json_get(line, "template"), *context = json_get(line, "context");
    struct json empty = {.type = JSON_OBJECT}, own;
    if (!context) context = &empty;
    if (!json_is_object(line) || !json_is_object(context))
        return error_set(err, ERROR_USAGE, "expected {\"template\": text, \"context\": object}");
    if (!text && s->model) {
        const char *model_text = chat_template_text(s->model, s->name);
        if (!model_text) return error_set(err, ERROR_USAGE, "the model has no chat template");
        own = (struct json){.type = JSON_STRING, .count = (uint32_t)strlen(model_text), .string = model_text};
        text = &own;
    }
    if (!json_is_string(text)) return error_set(err, ERROR_USAGE, "the line has no \"template\"");
    const struct jinja_template *template = compile_line(s, text, failure, err);
    return template && jinja_render_explained(template, context, &s->limits, out, failure, err);
}

static bool answer_line(struct line_state *s, const char *text, size_t length, struct buffer *answer) {
    struct arena arena = {0};
    struct buffer out = {0};
    struct jinja_failure failure = {0};
    struct mx_error err = {0};
    struct json_writer w = {.out = answer};
    const struct json *line = json_parse(&arena, text, length, JSON_FLAGS, MAX_DEPTH, &err);
    if (line && render_line(s, line, &out, &failure, &err)) {
        json_begin_object(&w);
        json_add_buffer(&w, "text", &out);
        json_end_object(&w);
    } else if (failure.kind) {
        write_failure(&w, failure.kind, failure.message.data, failure.message.length);
    } else {
        write_failure(&w, "input", err.message, strlen(err.message));
    }
    buffer_putc(answer, '\n');
    buffer_free(&out);
    jinja_failure_free(&failure);
    arena_free(&arena);
    return !answer->failed;
}

static int apply_lines(struct line_state *s) {
    struct mx_error err = {0};
    struct tm now;
    bool is_set;
    s->limits = jinja_default_limits;
    if (!chat_template_now(&now, &is_set, &err)) return command_fail(&err);
    if (is_set) s->limits.now = &now;
    char *line = NULL;
    size_t room = 0;
    int status = 0;
    for (ssize_t n; !status && (n = getline(&line, &room, stdin)) >= 0;) {
        struct buffer answer = {0};
        if (n && line[n - 1] == '\n') n--;
        if (n && line[n - 1] == '\r') n--;
        if (n && !answer_line(s, line, (size_t)n, &answer)) {
            error_memory(&err, "answer");
            status = command_fail(&err);
        } else if (n) {
            status = command_print(&answer);
        }
        buffer_free(&answer);
    }
    if (!status && ferror(stdin)) {
        error_set(&err, ERROR_IO, "standard input: %s", strerror(errno));
        status = command_fail(&err);
    }
    free(line);
    jinja_free(s->compiled);
    buffer_free(&s->compiled_text);
    return status;
}

int command_apply_template(const struct options *options) {
    struct mx_error err = {0};
    bool is_lines = options_flag(options, OPT_JSONL);
    if (is_lines && !(options_exclude(options, OPT_JSONL, OPT_MESSAGES, &err) &&
                      options_exclude(options, OPT_JSONL, OPT_TOOLS, &err)))
        return command_fail(&err);
    bool needs_template = !is_lines || options_is_set(options, OPT_MODEL) ||
                          options_is_set(options, OPT_CHAT_TEMPLATE) || options_is_set(options, OPT_CHAT_TEMPLATE_FILE);
    const char *name = NULL;
    struct chat_template *t = needs_template ? open_template(options, &name, &err) : NULL;
    if (needs_template && !t) return command_fail(&err);
    struct line_state state = {.model = t, .name = name};
    int status = is_lines ? apply_lines(&state) : apply_once(options, t, name);
    chat_template_close(t);
    return status;
}
