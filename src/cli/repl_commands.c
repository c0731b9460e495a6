/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/repl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void say(const char *text) {
    puts(text);
    fflush(stdout);
}

static void help(struct repl *r, const char *rest) {
    (void)r, (void)rest;
    say("/bye               exit (or Ctrl-D)\n"
        "/clear             forget the conversation (the system prompt stays)\n"
        "/set NAME VALUE    change a setting: temperature, top_p, ..., max_tokens, system TEXT, reasoning on|off\n"
        "/show [WHAT]       settings, or: messages, system, template, model\n"
        "/save FILE         write the conversation as JSON\n"
        "/load FILE         go on with a conversation from a file\n"
        "/stats             figures of the last answer\n"
        "/?, /help          this list\n"
        "Several lines: \"\"\" opens and closes a message, or end a line with \\ to go on in the next.\n"
        "Ctrl-C stops an answer or gives up the line that is being typed.");
}

static void leave(struct repl *r, const char *rest) {
    (void)rest;
    r->is_done = true;
    say("Bye!");
}

static void clear(struct repl *r, const char *rest) {
    (void)rest;
    conversation_cut(&r->conversation, conversation_system(&r->conversation) ? 1 : 0);
    say("Conversation cleared.");
}

/* ---- settings ---- */

static void show_settings(const struct repl *r) {
    const char *system = conversation_system(&r->conversation);
    for (size_t i = 0; i < N_SAMPLING_FIELDS; i++) {
        double value = sampling_get(&r->sampling, &sampling_fields[i]);
        if (value != sampling_fields[i].fallback || i < 6) printf("  %-20s %g\n", sampling_fields[i].name, value);
    }
    printf("  %-20s %lld\n  %-20s %s\n  %-20s %s\n", "max_tokens", (long long)r->max_tokens, "reasoning",
           r->shows_reasoning ? "on" : "off", "system", system ? system : "");
}

static void show_messages(const struct repl *r) {
    for (size_t i = 0; i < r->conversation.n; i++)
        printf("[%s] %s\n", r->conversation.messages[i].role, r->conversation.messages[i].content);
}

static void show(struct repl *r, const char *rest) {
    const char *system = conversation_system(&r->conversation);
    const char *text = chat_template_text(r->session.chat, r->session.template_name);
    if (!*rest || !strcmp(rest, "settings"))
        show_settings(r);
    else if (!strcmp(rest, "messages"))
        show_messages(r);
    else if (!strcmp(rest, "system"))
        puts(system ? system : "(no system prompt)");
    else if (!strcmp(rest, "template"))
        puts(text && !options_flag(r->options, OPT_NO_CHAT_TEMPLATE) ? text : "(no chat template)");
    else if (!strcmp(rest, "model"))
        printf("%s, context of %u tokens\n", r->session.path, r->session.context_length);
    else
        printf("/show knows settings, messages, system, template and model, not '%s'.\n", rest);
    fflush(stdout);
}

static void set_number(struct repl *r, const char *name, const char *text) {
    const struct sampling_field *field = sampling_field_find(name);
    struct mx_error err = {0};
    bool is_limit = !strcmp(name, "max_tokens");
    char *end;
    double number = strtod(text, &end);
    if (!field && !is_limit)
        printf("Unknown setting: %s. /show lists them.\n", name);
    else if (end == text || *end)
        printf("%s needs a number.\n", name);
    else if (is_limit)
        r->max_tokens = number < 1 || number > 1e9 ? -1 : (int64_t)number;
    else if (!sampling_set(&r->sampling, field, number, &err))
        printf("%s\n", err.message);
}

static void set(struct repl *r, const char *rest) {
    char name[64];
    size_t n = strcspn(rest, " \t");
    const char *value = rest + n + strspn(rest + n, " \t");
    if (!n) {
        show(r, "");
        return;
    }
    snprintf(name, sizeof name, "%.*s", (int)(n < sizeof name ? n : sizeof name - 1), rest);
    if (!strcmp(name, "system")) {
        if (!conversation_set_system(&r->conversation, value)) puts("Out of memory.");
    } else if (!strcmp(name, "reasoning")) {
        if (!strcmp(value, "on") || !strcmp(value, "off"))
            r->shows_reasoning = !strcmp(value, "on");
        else
            puts("reasoning is on or off.");
    } else {
        set_number(r, name, value);
    }
    fflush(stdout);
}

/* ---- files, figures ---- */

static void save(struct repl *r, const char *rest) {
    struct mx_error err = {0};
    if (!*rest)
        puts("/save needs a file name.");
    else if (conversation_save(&r->conversation, rest, &err))
        printf("Saved %zu messages to %s.\n", r->conversation.n, rest);
    else
        puts(err.message);
    fflush(stdout);
}

static void load(struct repl *r, const char *rest) {
    struct mx_error err = {0};
    if (!*rest)
        puts("/load needs a file name.");
    else if (conversation_load(&r->conversation, rest, &err))
        printf("Loaded %zu messages.\n", r->conversation.n);
    else
        puts(err.message);
    fflush(stdout);
}

static void stats(struct repl *r, const char *rest) {
    (void)rest;
    size_t n_computed = r->last.n_prompt - r->last.n_cached;
    if (!r->last.n_prompt) {
        say("No answer yet.");
        return;
    }
    printf("prompt:  %zu tokens, %zu kept from before, %zu prefilled in %.2f s (%.1f tok/s)\n"
           "answer:  %zu tokens in %.2f s (%.1f tok/s)\n"
           "context: %zu of %u tokens\n",
           r->last.n_prompt, r->last.n_cached, n_computed, r->last.prefill,
           r->last.prefill > 0 ? (double)n_computed / r->last.prefill : 0.0, r->last.n_generated, r->last.decode,
           r->last.decode > 0 ? (double)r->last.n_generated / r->last.decode : 0.0,
           r->last.n_prompt + r->last.n_generated, r->session.context_length);
    fflush(stdout);
}

/* ---- the table ---- */

static const struct {
    const char *name;
    void (*run)(struct repl *repl, const char *rest);
} commands[] = {
    {"/?", help},     {"/bye", leave}, {"/clear", clear}, {"/exit", leave}, {"/help", help},   {"/load", load},
    {"/quit", leave}, {"/save", save}, {"/set", set},     {"/show", show},  {"/stats", stats},
};

const char *const repl_command_names[] = {"/bye",  "/clear", "/exit", "/help",  "/load", "/quit",
                                          "/save", "/set",   "/show", "/stats", NULL};

void repl_command(struct repl *r, const char *line) {
    size_t n = strcspn(line, " \t");
    const char *rest = line + n + strspn(line + n, " \t");
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (strlen(commands[i].name) == n && !memcmp(commands[i].name, line, n)) {
            commands[i].run(r, rest);
            return;
        }
    printf("Unknown command: %.*s. Type /? for the list of commands.\n", (int)n, line);
    fflush(stdout);
}
