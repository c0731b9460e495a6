/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/template.h"

#include "base/file.h"

#include <stdlib.h>
#include <string.h>

#define MAX_TEMPLATE_BYTES ((size_t)16 << 20)
#define MAX_DEPTH          400

static bool is_name(const char *text) { return text && !strchr(text, '{') && !strchr(text, '\n'); }

bool template_is_given(const struct options *options) {
    const char *text = options_text(options, OPT_CHAT_TEMPLATE);
    return options_text(options, OPT_CHAT_TEMPLATE_FILE) || (text && !is_name(text));
}

static bool check_name(const struct chat_template *t, const char *name, struct mx_error *err) {
    struct buffer known = {0};
    if (chat_template_text(t, name)) return true;
    for (size_t i = 0; i < chat_template_count(t); i++)
        buffer_printf(&known, "%s%s", i ? ", " : "", chat_template_name(t, i));
    error_set(err, ERROR_USAGE, "--chat-template: there is no template '%.100s' (there is %s)", name,
              known.length ? known.data : "none");
    buffer_free(&known);
    return false;
}

struct chat_template *template_open(const struct options *options, const char *folder, const char **name,
                                    struct mx_error *err) {
    const char *text = options_text(options, OPT_CHAT_TEMPLATE), *file = options_text(options, OPT_CHAT_TEMPLATE_FILE);
    *name = NULL;
    if (text && file) {
        error_set(err, ERROR_USAGE, "give one of --chat-template and --chat-template-file");
        return NULL;
    }
    if (file) {
        size_t length;
        char *content = file_read(file, MAX_TEMPLATE_BYTES, &length, err);
        struct chat_template *t = content ? chat_template_from_text(content, length, folder, err) : NULL;
        free(content);
        return t;
    }
    if (text && !is_name(text)) return chat_template_from_text(text, strlen(text), folder, err);
    struct chat_template *t = chat_template_open(folder, err);
    if (t && text && !check_name(t, text, err)) {
        chat_template_close(t);
        return NULL;
    }
    *name = text;
    return t;
}

bool template_kwargs(const struct options *options, struct arena *arena, const struct json **kwargs,
                     struct mx_error *err) {
    const char *text = options_text(options, OPT_CHAT_TEMPLATE_KWARGS);
    *kwargs = NULL;
    if (!text) return true;
    *kwargs = json_parse(arena, text, strlen(text), JSON_ALLOW_NAN | JSON_PYTHON_INTEGERS, MAX_DEPTH, err);
    if (!*kwargs) {
        error_prefix(err, "--chat-template-kwargs");
        if (err->code != ERROR_MEMORY) err->code = ERROR_USAGE;
        return false;
    }
    return json_is_object(*kwargs) ||
           error_set(err, ERROR_USAGE, "--chat-template-kwargs: expected an object, found %s", json_type_name(*kwargs));
}
