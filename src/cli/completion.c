/* SPDX-License-Identifier: Apache-2.0 */
/* Completion scripts for bash, zsh and fish. Each offers the commands, then the options of the one that was written, then
 * the values of a choice, folders where a value is called DIR and files where it is called FILE. */
#include "cli/documents.h"

#include <string.h>

enum value { VALUE_NONE, VALUE_FREE, VALUE_CHOICE, VALUE_FOLDER, VALUE_FILE };

static enum value value_named(const char *name) {
    return !strcmp(name, "DIR") ? VALUE_FOLDER : !strcmp(name, "FILE") ? VALUE_FILE : VALUE_FREE;
}

static enum value value_of(const struct option *o) {
    if (o->kind == OPTION_FLAG || o->kind == OPTION_ABSENT) return VALUE_NONE;
    return o->choices ? VALUE_CHOICE : o->value_name ? value_named(o->value_name) : VALUE_FREE;
}

/* Everything but `from`, which becomes `to`. */
static void put_replaced(struct buffer *out, const char *text, char from, const char *to) {
    for (; *text; text++) {
        if (*text == from)
            buffer_puts(out, to);
        else
            buffer_putc(out, *text);
    }
}

/* The command's name and aliases, with something between. */
static void put_names(struct buffer *out, const struct command_info *c, const char *between) {
    buffer_puts(out, c->name);
    if (!c->aliases) return;
    buffer_puts(out, between);
    put_replaced(out, c->aliases, ' ', between);
}

static void put_spellings(struct buffer *out, const struct option *o, const char *between) {
    size_t n;
    for (const char *s = option_next_spelling(o, NULL, &n); s; s = option_next_spelling(o, s, &n)) {
        if (s != o->name) buffer_puts(out, between);
        buffer_append(out, s, n);
    }
}

static void put_command_names(struct buffer *out) {
    for (int i = 0; i < N_COMMANDS; i++) buffer_printf(out, "%s%s", i ? " " : "", command_table[i].name);
}

static void put_program_names(struct buffer *out) {
    buffer_puts(out, "mlxcel");
    for (int i = 0; i < N_COMMANDS; i++)
        if (command_table[i].program) buffer_printf(out, " %s", command_table[i].program);
}

/* ---- bash ---- */

static void put_bash_command(struct buffer *out, enum command command) {
    const struct command_info *c = &command_table[command];
    buffer_puts(out, "    ");
    put_names(out, c, "|");
    buffer_puts(out, ")\n        options='");
    for (size_t i = 0; i < N_OPTIONS; i++) {
        if (!option_is_offered(&option_table[i], command)) continue;
        put_spellings(out, &option_table[i], " ");
        buffer_putc(out, ' ');
    }
    buffer_puts(out, "--help -h --version'\n");
    if (c->positional && value_named(c->positional) != VALUE_FREE)
        buffer_printf(out, "        argument=%s\n", value_named(c->positional) == VALUE_FOLDER ? "folder" : "file");
    buffer_puts(out, "        case $previous in\n");
    for (size_t i = 0; i < N_OPTIONS; i++) {
        const struct option *o = &option_table[i];
        enum value value = value_of(o);
        if (!option_is_offered(o, command) || value == VALUE_NONE) continue;
        buffer_puts(out, "        ");
        put_spellings(out, o, "|");
        buffer_puts(out, ") value=");
        if (value == VALUE_CHOICE) {
            buffer_puts(out, "choice choices='");
            put_replaced(out, o->choices, '|', " ");
            buffer_putc(out, '\'');
        } else {
            buffer_puts(out, value == VALUE_FOLDER ? "folder" : value == VALUE_FILE ? "file" : "free");
        }
        buffer_puts(out, " ;;\n");
    }
    buffer_puts(out, "        esac ;;\n");
}

/* bash takes '=' as a word of its own, so --name=value arrives as three words. */
static const char bash_start[] =
    "# bash completion for mlxcel, made from its option table by `mlxcel completion bash`\n"
    "_mlxcel_paths() {\n"
    "    compopt -o filenames 2>/dev/null\n"
    "    mapfile -t COMPREPLY < <(compgen \"$1\" -- \"$2\")\n"
    "}\n"
    "\n"
    "_mlxcel() {\n"
    "    local current=${COMP_WORDS[COMP_CWORD]} previous= command= options= argument= value= choices=\n"
    "    local -i at=COMP_CWORD\n"
    "    COMPREPLY=()\n"
    "    if [[ $current == = ]]; then\n"
    "        current=\n"
    "    elif ((at > 0)); then\n"
    "        at=at-1\n"
    "    fi\n"
    "    [[ ${COMP_WORDS[at]} == = ]] && ((at > 0)) && at=at-1\n"
    "    previous=${COMP_WORDS[at]}\n";

static const char bash_commands[] =
    "    *)\n"
    "        command=${COMP_WORDS[1]-}\n"
    "        if ((COMP_CWORD == 1)); then\n"
    "            mapfile -t COMPREPLY < <(compgen -W \"$commands help --help --version\" -- \"$current\")\n"
    "            return\n"
    "        fi ;;\n"
    "    esac\n"
    "    case $command in\n"
    "    help|man)\n"
    "        ((COMP_CWORD == 2)) && mapfile -t COMPREPLY < <(compgen -W \"$commands\" -- \"$current\")\n"
    "        return ;;\n"
    "    completion)\n"
    "        ((COMP_CWORD == 2)) && mapfile -t COMPREPLY < <(compgen -W 'bash zsh fish' -- \"$current\")\n"
    "        return ;;\n";

static const char bash_end[] = "    *) return ;;\n"
                               "    esac\n"
                               "    if [[ -z $value && $current != -* && -n $argument ]]; then value=$argument; fi\n"
                               "    case $value in\n"
                               "    folder) _mlxcel_paths -d \"$current\" ;;\n"
                               "    file) _mlxcel_paths -f \"$current\" ;;\n"
                               "    choice) mapfile -t COMPREPLY < <(compgen -W \"$choices\" -- \"$current\") ;;\n"
                               "    free) ;;\n"
                               "    *) mapfile -t COMPREPLY < <(compgen -W \"$options\" -- \"$current\") ;;\n"
                               "    esac\n"
                               "}\n"
                               "complete -F _mlxcel ";

static void put_bash(struct buffer *out) {
    buffer_puts(out, bash_start);
    buffer_puts(out, "    local commands='");
    put_command_names(out);
    buffer_puts(out, "'\n    case ${COMP_WORDS[0]##*/} in\n");
    for (int i = 0; i < N_COMMANDS; i++)
        if (command_table[i].program)
            buffer_printf(out, "    %s) command=%s ;;\n", command_table[i].program, command_table[i].name);
    buffer_puts(out, bash_commands);
    for (int i = 0; i < N_COMMANDS; i++) put_bash_command(out, (enum command)i);
    buffer_puts(out, bash_end);
    put_program_names(out);
    buffer_putc(out, '\n');
}

/* ---- zsh ---- */

/* Inside '...' and, as `specials` are escaped, inside a part of an argument's specification. */
static void put_zsh_text(struct buffer *out, const char *text, const char *specials) {
    for (; *text; text++) {
        if (*text == '\'')
            buffer_puts(out, "'\\''");
        else if (strchr(specials, *text))
            buffer_printf(out, "\\%c", *text);
        else
            buffer_putc(out, *text);
    }
}

static void put_zsh_value(struct buffer *out, const char *name, enum value value, const char *choices) {
    buffer_putc(out, ':');
    put_zsh_text(out, name, ":\\");
    buffer_putc(out, ':');
    if (value == VALUE_CHOICE) {
        buffer_putc(out, '(');
        put_replaced(out, choices, '|', " ");
        buffer_putc(out, ')');
    }
    if (value == VALUE_FOLDER) buffer_puts(out, "_files -/");
    if (value == VALUE_FILE) buffer_puts(out, "_files");
}

static void put_zsh_option(struct buffer *out, const struct option *o) {
    enum value value = value_of(o);
    size_t n;
    for (const char *s = option_next_spelling(o, NULL, &n); s; s = option_next_spelling(o, s, &n)) {
        buffer_puts(out, "        '");
        if (o->is_repeatable) {
            buffer_putc(out, '*');
        } else {
            buffer_putc(out, '(');
            put_spellings(out, o, " ");
            buffer_putc(out, ')');
        }
        buffer_append(out, s, n);
        if (value != VALUE_NONE && s[1] == '-') buffer_putc(out, '=');
        buffer_putc(out, '[');
        put_zsh_text(out, o->help, "[]:\\");
        buffer_putc(out, ']');
        if (value != VALUE_NONE) put_zsh_value(out, o->value_name ? o->value_name : "value", value, o->choices);
        buffer_puts(out, "' \\\n");
    }
}

static void put_zsh_command(struct buffer *out, enum command command) {
    const struct command_info *c = &command_table[command];
    buffer_printf(out, "_mlxcel_%s() {\n    _arguments \\\n", c->name);
    for (size_t i = 0; i < N_OPTIONS; i++)
        if (option_is_offered(&option_table[i], command)) put_zsh_option(out, &option_table[i]);
    if (c->positional) {
        bool repeats = option_table[c->positional_option].is_repeatable;
        buffer_puts(out, repeats ? "        '*" : "        ':");
        put_zsh_value(out, c->positional, value_named(c->positional), NULL);
        buffer_puts(out, "' \\\n");
    }
    buffer_puts(out, "        '(--help -h)'{--help,-h}'[print the options and exit]' \\\n"
                     "        '--version[print the version and exit]'\n}\n\n");
}

static void put_zsh(struct buffer *out) {
    buffer_puts(out, "#compdef ");
    put_program_names(out);
    buffer_puts(out, "\n# made from the option table by `mlxcel completion zsh`\n\n");
    for (int i = 0; i < N_COMMANDS; i++) put_zsh_command(out, (enum command)i);
    buffer_puts(out, "_mlxcel() {\n    local -a commands=(\n");
    for (int i = 0; i < N_COMMANDS; i++) {
        buffer_printf(out, "        '%s:", command_table[i].name);
        put_zsh_text(out, command_table[i].summary, ":\\");
        buffer_puts(out, "'\n");
    }
    buffer_puts(out, "    )\n    local command\n    case ${service:t} in\n");
    for (int i = 0; i < N_COMMANDS; i++)
        if (command_table[i].program)
            buffer_printf(out, "    %s) _mlxcel_%s; return ;;\n", command_table[i].program, command_table[i].name);
    buffer_puts(out, "    esac\n"
                     "    if (( CURRENT == 2 )); then\n"
                     "        commands+=('help:print the commands, or the options of one')\n"
                     "        if [[ $PREFIX == -* ]]; then\n"
                     "            _arguments '(- *)'{--help,-h}'[print the commands and exit]' "
                     "'(- *)'{--version,-V}'[print the version and exit]'\n"
                     "        else\n"
                     "            _describe command commands\n"
                     "        fi\n"
                     "        return\n"
                     "    fi\n"
                     "    command=$words[2]\n"
                     "    shift words\n"
                     "    (( CURRENT-- ))\n"
                     "    case $command in\n"
                     "    help|man) _describe command commands ;;\n"
                     "    completion) _values shell bash zsh fish ;;\n");
    for (int i = 0; i < N_COMMANDS; i++) {
        buffer_puts(out, "    ");
        put_names(out, &command_table[i], "|");
        buffer_printf(out, ") _mlxcel_%s ;;\n", command_table[i].name);
    }
    buffer_puts(out, "    esac\n}\n\n_mlxcel \"$@\"\n");
}

/* ---- fish ---- */

/* A quoted word. */
static void put_fish_text(struct buffer *out, const char *text) {
    buffer_putc(out, '\'');
    for (; *text; text++) {
        if (*text == '\'' || *text == '\\') buffer_putc(out, '\\');
        buffer_putc(out, *text);
    }
    buffer_putc(out, '\'');
}

static void put_fish_value(struct buffer *out, enum value value, const char *choices) {
    if (value == VALUE_FREE) buffer_puts(out, " -x");
    if (value == VALUE_FILE) buffer_puts(out, " -r -F");
    if (value == VALUE_FOLDER) buffer_puts(out, " -x -a '(__fish_complete_directories)'");
    if (value == VALUE_CHOICE) {
        buffer_puts(out, " -x -a '");
        put_replaced(out, choices, '|', " ");
        buffer_putc(out, '\'');
    }
}

/* `start` is the command of fish up to the option: for which program, under which condition. */
static void put_fish_options(struct buffer *out, enum command command, const char *start) {
    const struct command_info *c = &command_table[command];
    for (size_t i = 0; i < N_OPTIONS; i++) {
        const struct option *o = &option_table[i];
        size_t n;
        if (!option_is_offered(o, command)) continue;
        buffer_puts(out, start);
        for (const char *s = option_next_spelling(o, NULL, &n); s; s = option_next_spelling(o, s, &n)) {
            size_t dashes = s[1] == '-' ? 2 : 1;
            buffer_puts(out, dashes == 2 ? " -l " : n == 2 ? " -s " : " -o ");
            buffer_append(out, s + dashes, n - dashes);
        }
        put_fish_value(out, value_of(o), o->choices);
        buffer_puts(out, " -d ");
        put_fish_text(out, o->help);
        buffer_putc(out, '\n');
    }
    if (c->positional && value_named(c->positional) != VALUE_FREE) {
        buffer_puts(out, start);
        buffer_puts(out, value_named(c->positional) == VALUE_FILE ? " -F\n" : " -a '(__fish_complete_directories)'\n");
    }
    buffer_printf(out,
                  "%s -l help -s h -d 'print the options and exit'\n%s -l version -d 'print the version and exit'\n",
                  start, start);
}

static const char fish_start[] =
    "# fish completion for mlxcel, made from its option table by `mlxcel completion fish`\n"
    "function __mlxcel_needs_command\n"
    "    test (count (commandline -opc)) -eq 1\n"
    "end\n"
    "\n"
    "function __mlxcel_has_command\n"
    "    set -l words (commandline -opc)\n"
    "    test (count $words) -ge 2; and contains -- $words[2] $argv\n"
    "end\n"
    "\n"
    "complete -c mlxcel -f\n"
    "complete -c mlxcel -n __mlxcel_needs_command -l help -s h -d 'print the commands and exit'\n"
    "complete -c mlxcel -n __mlxcel_needs_command -l version -s V -d 'print the version and exit'\n"
    "complete -c mlxcel -n __mlxcel_needs_command -a help -d 'print the commands, or the options of one'\n"
    "complete -c mlxcel -n '__mlxcel_has_command completion' -a 'bash zsh fish'\n"
    "complete -c mlxcel -n '__mlxcel_has_command help man' -a '";

static void put_fish(struct buffer *out) {
    buffer_puts(out, fish_start);
    put_command_names(out);
    buffer_puts(out, "'\n");
    for (int i = 0; i < N_COMMANDS; i++) {
        const struct command_info *c = &command_table[i];
        struct buffer start = {0};
        buffer_printf(out, "complete -c mlxcel -n __mlxcel_needs_command -a %s -d ", c->name);
        put_fish_text(out, c->summary);
        buffer_putc(out, '\n');
        buffer_puts(&start, "complete -c mlxcel -n '__mlxcel_has_command ");
        put_names(&start, c, " ");
        if (buffer_putc(&start, '\'')) put_fish_options(out, (enum command)i, start.data);
        if (c->program) {
            buffer_clear(&start);
            buffer_printf(out, "complete -c %s -f\n", c->program);
            if (buffer_printf(&start, "complete -c %s", c->program)) put_fish_options(out, (enum command)i, start.data);
        }
        out->failed |= start.failed;
        buffer_free(&start);
    }
}

bool completion_script(struct buffer *out, const char *shell) {
    static const struct {
        const char *shell;
        void (*put)(struct buffer *out);
    } shells[] = {{"bash", put_bash}, {"zsh", put_zsh}, {"fish", put_fish}};
    for (size_t i = 0; i < sizeof shells / sizeof *shells; i++) {
        if (strcmp(shell, shells[i].shell) != 0) continue;
        shells[i].put(out);
        return true;
    }
    return false;
}
