/* SPDX-License-Identifier: Apache-2.0 */
/* Options from an INI file: `name = value` lines, where a name is an option's long or short spelling without dashes, or one
 * of its environment names. Sections other than [*] and [server] are an error: they would be ignored silently. */
#include "cli/options.h"

#include "base/file.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

static char *trim(char *text) {
    text += strspn(text, " \t\r");
    size_t n = strlen(text);
    while (n && strchr(" \t\r", text[n - 1])) text[--n] = '\0';
    return text;
}

static bool list_has(const char *list, const char *word, bool skips_dashes) {
    size_t n = strlen(word);
    while (list && *list) {
        size_t length = strcspn(list, " "), dashes = skips_dashes ? strspn(list, "-") : 0;
        if (length - dashes == n && !memcmp(list + dashes, word, n)) return true;
        list += length + (list[length] != '\0');
    }
    return false;
}

static const struct option *find(enum command command, const char *name) {
    for (size_t i = 0; i < N_OPTIONS; i++) {
        const struct option *o = &option_table[i];
        if (!(o->commands & 1u << command) || o->kind == OPTION_ABSENT) continue;
        if (list_has(o->name, name, true) || list_has(o->aliases, name, true) || list_has(o->environment, name, false))
            return o;
    }
    return NULL;
}

/* One line; '#' and ';' begin comments at its start. */
static bool read_line(struct options *options, char *line, const char *path, unsigned number, struct mx_error *err) {
    line = trim(line);
    if (!*line || *line == '#' || *line == ';') return true;
    if (*line == '[') {
        if (!strcmp(line, "[*]") || !strcmp(line, "[server]")) return true;
        return error_set(err, ERROR_USAGE, "%s:%u: unknown section %s (known: [*], [server])", path, number, line);
    }
    char *equals = strchr(line, '=');
    if (!equals) return error_set(err, ERROR_USAGE, "%s:%u: a line must be 'name = value'", path, number);
    *equals = '\0';
    const char *name = trim(line), *value = trim(equals + 1);
    if (!strcmp(name, "version")) return true;
    const struct option *o = find(options->command, name);
    if (!o) return error_set(err, ERROR_USAGE, "%s:%u: there is no option '%s'", path, number, name);
    size_t id = (size_t)(o - option_table);
    /* The command line and the environment count before the file. */
    if (options->text[id] && !options->is_from_file[id]) return true;
    options->is_from_file[id] = true;
    return options_set(options, (enum option_id)id, name, value, err) || error_prefix(err, "%s:%u", path, number);
}

bool options_read_file(struct options *options, const char *path, struct mx_error *err) {
    size_t length;
    char *text = file_read(path, 1 << 20, &length, err);
    if (!text) return false;
    if (strlen(text) != length) {
        free(text);
        return error_set(err, ERROR_USAGE, "%s is no text file", path);
    }
    options->file_text = text; /* the values point into it */
    unsigned number = 0;
    for (char *line = text, *next; line; line = next) {
        next = strchr(line, '\n');
        if (next) *next++ = '\0';
        if (!read_line(options, line, path, ++number, err)) return false;
    }
    return true;
}
