/* SPDX-License-Identifier: Apache-2.0 */
/* Man pages in the macros of man(7). Text is filled to short source lines, every character that roff would read otherwise
 * is written as its escape, and nothing of the machine that builds gets into a page. */
#include "cli/documents.h"

#include <string.h>

enum { LINE_WIDTH = 78 };

#define LOADS_MODEL                                                                                                    \
    (FOR(GENERATE) | FOR(RUN) | FOR(SERVE) | FOR(TOKENIZE) | FOR(DETOKENIZE) | FOR(APPLY_TEMPLATE) | FOR(INSPECT) |    \
     FOR(PERPLEXITY) | FOR(LOGITS) | FOR(BENCH_DECODE))
#define RENDERS (FOR(GENERATE) | FOR(RUN) | FOR(SERVE) | FOR(APPLY_TEMPLATE) | FOR(BENCH_DECODE))
#define PROGRAM (1u << N_COMMANDS) /* the page of the program itself */

static const char *const descriptions[N_COMMANDS] = {
    [COMMAND_GENERATE] =
        "Writes the answer to one prompt to standard output while it is generated. Where the model has a "
        "chat template the prompt becomes a conversation of one message. Without --prompt it is the "
        "same as mlxcel run.",
    [COMMAND_RUN] = "Reads messages from the terminal and answers them, with the conversation so far in mind. The line "
                    "/help lists what else can be typed. With --prompt it is the same as mlxcel generate.",
    [COMMAND_SERVE] =
        "Answers the requests of OpenAI's, Anthropic's, llama-server's and ollama's clients over HTTP. "
        "SIGTERM and SIGINT finish the running answers, then the server exits; a second signal ends them.",
    [COMMAND_LOGITS] = "Feeds a prompt and prints the logits, for comparing them with those of a reference "
                       "implementation.",
    [COMMAND_SYNTH] = "Writes a checkpoint folder of random weights with the shapes that a config.json asks for, in a "
                      "weight format of choice.",
    [COMMAND_INSPECT] =
        "Tells from the config.json alone what a model is, how large it is and how much memory it needs; "
        "where the weights are there too, also which of them were not used.",
    [COMMAND_ARCH] = "Lists the model families that this version knows.",
    [COMMAND_PERPLEXITY] = "Prints the mean loss and the perplexity of a model on a text.",
    [COMMAND_BENCH_DECODE] = "Measures the rates of prefill and decode, and prints them as shares of the memory "
                             "bandwidth and the arithmetic that the machine was measured to have.",
    [COMMAND_TOKENIZE] = "Prints the token ids of a text, which is the one of --prompt or standard input.",
    [COMMAND_DETOKENIZE] = "Prints the text of token ids, given as arguments, by --ids or on standard input.",
    [COMMAND_APPLY_TEMPLATE] =
        "Prints the prompt that a conversation becomes by the model's chat template, and nothing "
        "else.",
    [COMMAND_GRAMMAR] = "Checks a grammar, and with --check whether standard input matches it: the answer is accept, "
                        "incomplete or reject.",
    [COMMAND_PARSE_REPLY] =
        "Reads what a model wrote from standard input and prints its content, its reasoning and its "
        "tool calls as JSON.",
};

/* Variables that no option has. */
static const struct {
    unsigned commands;
    const char *name, *text;
} variables[] = {
    {RENDERS, "MLXCEL_NOW", "the time that chat templates see, as YYYY-MM-DD hh:mm:ss, in the place of the clock's"},
    {FOR(BENCH_DECODE), "TMPDIR", "where --synthetic writes its weights (default: /tmp)"},
    {FOR(SERVE), "NOTIFY_SOCKET, WATCHDOG_USEC, WATCHDOG_PID", "set by systemd for a service of type notify"},
};

static const struct {
    unsigned commands;
    const char *name, *text;
} files[] = {
    {LOADS_MODEL | FOR(SYNTH) | PROGRAM, "DIR/config.json", "shape and family of the model"},
    {LOADS_MODEL | FOR(SYNTH) | PROGRAM, "DIR/*.safetensors", "weights, in one file or several"},
    {LOADS_MODEL | PROGRAM, "DIR/tokenizer.json, DIR/tokenizer_config.json, DIR/generation_config.json",
     "tokenizer, chat template and sampling"},
    {LOADS_MODEL | PROGRAM, "PREFIX/share/mlxcel/models/novels-24m-4bit",
     "the bundled model, which runs where no other one is named"},
    {FOR(SERVE), "/etc/mlxcel/server.ini, /etc/mlxcel/server.env", "options and secrets of the systemd service"},
    {FOR(SERVE), "PREFIX/lib/systemd/system/mlxcel-server.service", "the systemd service"},
};

/* ---- roff ---- */

static void put_escaped(struct buffer *out, const char *text, size_t length) {
    static const char special[] = "\\-'\"`^~";
    static const char *const escapes[] = {"\\e", "\\-", "\\(aq", "\\(dq", "\\(ga", "\\(ha", "\\(ti"};
    if (length && *text == '.') buffer_puts(out, "\\&");
    for (size_t i = 0; i < length; i++) {
        const char *found = text[i] ? strchr(special, text[i]) : NULL;
        if (found)
            buffer_puts(out, escapes[found - special]);
        else
            buffer_putc(out, text[i]);
    }
}

static void put_font(struct buffer *out, char font, const char *text, size_t length) {
    buffer_printf(out, "\\f%c", font);
    put_escaped(out, text, length);
    buffer_puts(out, "\\fR");
}

/* Words, filled into lines; ends with a line end. Goes on in the line that is begun. */
static void put_text(struct buffer *out, const char *text) {
    size_t line = out->length;
    bool is_first = true;
    while (line && out->data[line - 1] != '\n') line--;
    while (*(text += strspn(text, " "))) {
        size_t n = strcspn(text, " "), before = out->length;
        if (!is_first) buffer_putc(out, ' ');
        put_escaped(out, text, n);
        if (!is_first && out->length - line > LINE_WIDTH && !out->failed) {
            out->data[before] = '\n';
            line = before + 1;
        }
        is_first = false;
        text += n;
    }
    buffer_putc(out, '\n');
}

static void put_section(struct buffer *out, const char *title) { buffer_printf(out, ".SH %s\n", title); }

static void put_item(struct buffer *out, const char *name, const char *text) {
    buffer_puts(out, ".TP\n");
    put_font(out, 'B', name, strlen(name));
    buffer_putc(out, '\n');
    put_text(out, text);
}

/* A list in which each word stands in bold, with something between. */
static void put_words(struct buffer *out, const char *list, const char *separators, const char *between) {
    for (bool is_first = true; *list; is_first = false) {
        size_t n = strcspn(list, separators);
        if (!is_first) buffer_puts(out, between);
        put_font(out, 'B', list, n);
        list += n;
        list += strspn(list, separators);
    }
}

/* ---- sections ---- */

static void put_option(struct buffer *out, const struct option *o) {
    buffer_puts(out, ".TP\n");
    size_t n;
    for (const char *s = option_next_spelling(o, NULL, &n); s; s = option_next_spelling(o, s, &n)) {
        if (s != o->name) buffer_puts(out, ", ");
        put_font(out, 'B', s, n);
    }
    if (o->choices) {
        buffer_putc(out, ' ');
        put_words(out, o->choices, "|", "|");
    } else if (o->value_name) {
        buffer_putc(out, ' ');
        put_font(out, 'I', o->value_name, strlen(o->value_name));
    }
    buffer_putc(out, '\n');
    put_text(out, o->help);
    if (o->default_text && *o->default_text) {
        buffer_puts(out, ".br\nDefault: ");
        put_escaped(out, o->default_text, strlen(o->default_text));
        buffer_putc(out, '\n');
    }
    if (o->environment) {
        buffer_puts(out, ".br\nEnvironment: ");
        put_words(out, o->environment, " ", ",\n");
        buffer_putc(out, '\n');
    }
}

static void put_options(struct buffer *out, enum command command) {
    put_section(out, "OPTIONS");
    if (command != N_COMMANDS)
        put_text(out, "A value follows its option, or a long option's an equals sign: --name=value.");
    for (size_t i = 0; i < N_OPTIONS; i++)
        if (command != N_COMMANDS && option_is_offered(&option_table[i], command)) put_option(out, &option_table[i]);
    buffer_printf(out, ".TP\n\\fB\\-\\-help\\fR, \\fB\\-h\\fR\nprint the %s and exit\n",
                  command == N_COMMANDS ? "commands" : "options");
    buffer_printf(out, ".TP\n\\fB\\-\\-version\\fR%s\nprint the version and exit\n",
                  command == N_COMMANDS ? ", \\fB\\-V\\fR" : "");
}

static void put_environment(struct buffer *out, enum command command) {
    put_section(out, "ENVIRONMENT");
    put_text(out, "An option that the command line leaves open takes its value from the first of its environment "
                  "variables that is set and not empty. A flag is left off by 0, false, off and no.");
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        if (variables[i].commands & 1u << command) put_item(out, variables[i].name, variables[i].text);
}

static void put_exit_status(struct buffer *out) {
    put_section(out, "EXIT STATUS");
    put_item(out, "0", "done");
    put_item(out, "1", "it failed; one line on standard error says why");
    put_item(out, "2", "wrong usage; one line on standard error names the option");
    put_item(out, "130", "interrupted");
}

static void put_files(struct buffer *out, enum command command) {
    bool has_files = false;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        if (!(files[i].commands & 1u << command)) continue;
        if (!has_files) put_section(out, "FILES");
        has_files = true;
        put_item(out, files[i].name, files[i].text);
    }
    if (has_files && (1u << command) & (LOADS_MODEL | PROGRAM))
        buffer_puts(out, ".PP\n\\fIPREFIX\\fR is the folder above the one that the program lies in.\n");
}

static void put_see_also(struct buffer *out, enum command command) {
    put_section(out, "SEE ALSO");
    bool is_first = true;
    for (int i = -1; i < N_COMMANDS; i++) {
        if (i == (int)command || (i < 0 && command == N_COMMANDS)) continue;
        if (!is_first) buffer_puts(out, ",\n");
        is_first = false;
        buffer_puts(out, "\\fBmlxcel");
        if (i >= 0) buffer_puts(out, "\\-"), put_escaped(out, command_table[i].name, strlen(command_table[i].name));
        buffer_puts(out, "\\fR(1)");
    }
    buffer_putc(out, '\n');
}

static void put_commands(struct buffer *out) {
    put_section(out, "COMMANDS");
    for (int i = 0; i < N_COMMANDS; i++) {
        const struct command_info *c = &command_table[i];
        buffer_puts(out, ".TP\n");
        put_font(out, 'B', c->name, strlen(c->name));
        if (c->aliases) {
            buffer_puts(out, ", ");
            put_words(out, c->aliases, " ", ", ");
        }
        buffer_putc(out, '\n');
        put_text(out, c->summary);
    }
    put_item(out, "help", "print the commands, or with a command's name its options");
}

static void put_synopsis(struct buffer *out, const struct command_info *c) {
    put_section(out, "SYNOPSIS");
    for (int i = 0; i < 2; i++) {
        if (i && (!c || !c->program)) break;
        if (i) buffer_puts(out, ".br\n");
        if (i)
            put_font(out, 'B', c->program, strlen(c->program));
        else
            buffer_puts(out, "\\fBmlxcel\\fR");
        if (!i && c) buffer_putc(out, ' '), put_font(out, 'B', c->name, strlen(c->name));
        buffer_puts(out, c ? " [\\fIOPTIONS\\fR]" : " \\fICOMMAND\\fR [\\fIOPTIONS\\fR]");
        if (c && c->positional) {
            buffer_puts(out, " [");
            put_font(out, 'I', c->positional, strlen(c->positional));
            buffer_putc(out, ']');
        }
        buffer_putc(out, '\n');
    }
}

void man_page(struct buffer *out, enum command command) {
    const struct command_info *c = command == N_COMMANDS ? NULL : &command_table[command];
    buffer_puts(out, ".TH \"MLXCEL");
    if (c) buffer_puts(out, "\\-");
    for (const char *s = c ? c->name : ""; *s; s++) {
        char upper = *s >= 'a' && *s <= 'z' ? (char)(*s - 'a' + 'A') : *s;
        put_escaped(out, &upper, 1);
    }
    buffer_puts(out, "\" 1 " MLXCEL_DATE " \"mlxcel " MLXCEL_VERSION "\" \"mlxcel\"\n");

    buffer_puts(out, ".nh\n.ad l\n");
    put_section(out, "NAME");
    buffer_puts(out, "mlxcel");
    if (c) buffer_puts(out, "\\-"), put_escaped(out, c->name, strlen(c->name));
    if (c && c->program && strcmp(c->program + strlen("mlxcel-"), c->name) != 0) {
        buffer_puts(out, ", ");
        put_escaped(out, c->program, strlen(c->program));
    }
    buffer_puts(out, " \\- ");
    put_text(out, c ? c->summary : "run language models from MLX and Hugging Face safetensors folders");

    put_synopsis(out, c);
    put_section(out, "DESCRIPTION");
    if (c) {
        put_text(out, descriptions[command] ? descriptions[command] : c->summary);
    } else {
        put_text(out,
                 "Loads a checkpoint folder as it is downloaded, and turns text into text: on the command line, in a "
                 "conversation on the terminal, and as a server. Results go to standard output, everything else to "
                 "standard error.");
        put_commands(out);
    }
    put_options(out, command);
    put_environment(out, command);
    put_exit_status(out);
    put_files(out, command);
    put_see_also(out, command);
}
