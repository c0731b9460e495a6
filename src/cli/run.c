/* SPDX-License-Identifier: Apache-2.0 */
/* `mlxcel run`: a conversation on the terminal.
 *
 * Lines come from libedit (history, editing) on a terminal, else as they stand from stdin. A block between lines of """ is
 * one message. Each turn renders the whole conversation with the chat template; the prefix cache keeps what was computed
 * before, so that only the new turn is. */
#include "cli/answer.h"
#include "cli/commands.h"

#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"

#include <errno.h>
#include <histedit.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct message {
    char *role, *content;
};

struct conversation {
    struct session session;
    const struct options *options;
    struct sampling_params sampling;
    int64_t max_tokens;
    bool shows_reasoning, is_terminal, is_done;
    struct message *messages;
    size_t n_messages, capacity;
    EditLine *editor;
    History *history;
    char *line; /* of getline, without a terminal */
    size_t line_room;
    const char *prompt_text;
    struct { /* of the last answer */
        size_t n_prompt, n_cached, n_generated;
        double prefill, decode;
    } last;
};

/* ---- reading ---- */

static struct conversation *reading; /* libedit's prompt callback has no argument of ours */

static char *editor_prompt(EditLine *editor) {
    (void)editor;
    return (char *)(uintptr_t)reading->prompt_text;
}

static bool open_editor(struct conversation *c) {
    HistEvent event;
    c->is_terminal = isatty(STDIN_FILENO);
    if (!c->is_terminal) return true;
    reading = c;
    c->editor = el_init("mlxcel", stdin, stdout, stderr);
    c->history = history_init();
    if (!c->editor || !c->history) return false;
    history(c->history, &event, H_SETSIZE, 1000);
    el_set(c->editor, EL_PROMPT, editor_prompt);
    el_set(c->editor, EL_EDITOR, "emacs");
    el_set(c->editor, EL_SIGNAL, 1);
    el_set(c->editor, EL_HIST, history, c->history);
    el_source(c->editor, NULL);
    return true;
}

/* One line without its line break, borrowed until the next call; NULL at the end of input. */
static const char *read_line(struct conversation *c, const char *prompt_text) {
    static const char empty[] = "";
    c->prompt_text = prompt_text;
    if (c->editor) {
        int n = 0;
        const char *line = el_gets(c->editor, &n);
        if (session_was_interrupted()) {
            session_clear_interrupt();
            printf("\n(^C - type /bye to exit)\n");
            return empty;
        }
        if (!line || n <= 0) return NULL;
        HistEvent event;
        if (n > 1) history(c->history, &event, H_ENTER, line);
        free(c->line);
        c->line = strndup(line, (size_t)(line[n - 1] == '\n' ? n - 1 : n));
        return c->line;
    }
    ssize_t n = getline(&c->line, &c->line_room, stdin);
    if (n < 0) return NULL;
    if (n && c->line[n - 1] == '\n') c->line[--n] = '\0';
    if (n && c->line[n - 1] == '\r') c->line[--n] = '\0';
    return c->line;
}

/* Trims spaces and line breaks at both ends. */
static char *trimmed(const char *text, size_t length) {
    while (length && strchr(" \t\r\n", *text)) text++, length--;
    while (length && strchr(" \t\r\n", text[length - 1])) length--;
    return strndup(text, length);
}

/* The rest of a block that began with """; its end is the next """. */
static char *read_block(struct conversation *c, const char *first) {
    struct buffer text = {0};
    const char *line = first, *close;
    while (line && !(close = strstr(line, "\"\"\""))) {
        buffer_puts(&text, line);
        buffer_putc(&text, '\n');
        line = read_line(c, "... ");
    }
    if (line) buffer_append(&text, line, (size_t)(strstr(line, "\"\"\"") - line));
    char *message = text.data && !text.failed ? trimmed(text.data, text.length) : strdup("");
    buffer_free(&text);
    return message;
}

/* The next message, or NULL at the end of input. The caller frees it. */
static char *read_message(struct conversation *c) {
    const char *line = read_line(c, ">>> ");
    if (!line) return NULL;
    if (!strncmp(line, "\"\"\"", 3)) {
        char *first = strdup(line + 3);
        char *message = first ? read_block(c, first) : NULL;
        free(first);
        return message;
    }
    return trimmed(line, strlen(line));
}

/* ---- the conversation ---- */

static bool add_message(struct conversation *c, const char *role, const char *content, size_t length) {
    if (!array_reserve(&c->messages, &c->capacity, c->n_messages + 1, sizeof *c->messages)) return false;
    struct message *m = &c->messages[c->n_messages];
    m->role = strdup(role);
    m->content = strndup(content, length);
    if (m->role && m->content) {
        c->n_messages++;
        return true;
    }
    free(m->role);
    free(m->content);
    return false;
}

static void drop_messages(struct conversation *c, size_t from) {
    while (c->n_messages > from) {
        c->n_messages--;
        free(c->messages[c->n_messages].role);
        free(c->messages[c->n_messages].content);
    }
}

static bool has_system(const struct conversation *c) {
    return c->n_messages && !strcmp(c->messages[0].role, "system");
}

static void write_messages(const struct conversation *c, struct buffer *out, int indent) {
    struct json_writer w = {.out = out, .indent = indent};
    json_begin_array(&w);
    for (size_t i = 0; i < c->n_messages; i++) {
        json_begin_object(&w);
        json_write_key(&w, "role");
        json_write_string(&w, c->messages[i].role);
        json_write_key(&w, "content");
        json_write_string(&w, c->messages[i].content);
        json_end_object(&w);
    }
    json_end_array(&w);
}

static bool encode(struct conversation *c, struct token_list *tokens, struct mx_error *err) {
    struct buffer text = {0};
    struct arena arena = {0};
    bool ok;
    if (options_flag(c->options, OPT_NO_CHAT_TEMPLATE)) {
        for (size_t i = 0; i < c->n_messages; i++) buffer_printf(&text, "%s%s", i ? "\n" : "", c->messages[i].content);
        ok = !text.failed && tokenizer_encode(c->session.tokenizer, text.data, text.length, TOKENIZE_SPECIAL, tokens, err);
    } else {
        write_messages(c, &text, 0);
        const struct json *messages = text.failed ? NULL : json_parse(&arena, text.data, text.length, 0, 16, err);
        ok = messages && session_encode_chat(&c->session, c->options, messages, tokens, err);
    }
    if (text.failed) error_memory(err, "conversation");
    buffer_free(&text);
    arena_free(&arena);
    return ok;
}

/* One turn. A failure is reported and the message taken back; the program goes on. */
static void take_turn(struct conversation *c, const char *message) {
    struct token_list prompt = {0};
    struct answer answer = {0};
    struct mx_error err = {0};
    size_t before = c->n_messages;
    bool ok = add_message(c, "user", message, strlen(message)) || error_memory(&err, "conversation");
    ok = ok && encode(c, &prompt, &err) &&
         answer_run(&answer, &c->session, c->options, &prompt, &c->sampling, c->max_tokens,
                    !options_flag(c->options, OPT_NO_CHAT_TEMPLATE), c->shows_reasoning, &err);
    if (answer.n_generated) printf(answer.ends_with_newline ? "\n" : "\n\n");
    fflush(stdout);
    if (ok) ok = add_message(c, "assistant", answer.text.data ? answer.text.data : "", answer.text.length) ||
                 error_memory(&err, "conversation");
    if (!ok) {
        command_fail(&err);
        drop_messages(c, before);
    }
    if (answer.reason == FINISH_CANCELLED && answer.is_finished) fprintf(stderr, "(answer stopped)\n");
    session_clear_interrupt();
    c->last.n_prompt = answer.n_prompt;
    c->last.n_cached = answer.n_cached;
    c->last.n_generated = answer.n_generated;
    c->last.prefill = (double)(answer.first_token_ns - answer.start_ns) * 1e-9;
    c->last.decode = (double)(answer.end_ns - answer.first_token_ns) * 1e-9;
    if (options_flag(c->options, OPT_PROFILE) && ok) answer_print_profile(&answer, true);
    answer_free(&answer);
    token_list_free(&prompt);
}

/* ---- commands ---- */

static void say(const char *text) {
    puts(text);
    fflush(stdout);
}

static void command_help(struct conversation *c, const char *rest) {
    (void)c, (void)rest;
    say("/bye               exit\n"
        "/clear             forget the conversation (the system prompt stays)\n"
        "/set               show the settings\n"
        "/set NAME VALUE    change one: temperature, top_p, ..., max_tokens, system, reasoning on|off\n"
        "/save FILE         write the conversation as JSON\n"
        "/load FILE         go on with a conversation from a file\n"
        "/stats             figures of the last answer\n"
        "/?, /help          this list\n"
        "\"\"\"                opens and closes a message of several lines; Ctrl-C stops an answer");
}

static void command_bye(struct conversation *c, const char *rest) {
    (void)rest;
    c->is_done = true;
    say("Bye!");
}

static void command_clear(struct conversation *c, const char *rest) {
    (void)rest;
    drop_messages(c, has_system(c) ? 1 : 0);
    say("Conversation cleared.");
}

static void show_settings(const struct conversation *c) {
    for (size_t i = 0; i < N_SAMPLING_FIELDS; i++) {
        double value = sampling_get(&c->sampling, &sampling_fields[i]);
        if (value != sampling_fields[i].fallback || i < 6) printf("  %-20s %g\n", sampling_fields[i].name, value);
    }
    printf("  %-20s %lld\n  %-20s %s\n  %-20s %s\n", "max_tokens", (long long)c->max_tokens, "reasoning",
           c->shows_reasoning ? "on" : "off", "system", has_system(c) ? c->messages[0].content : "");
    fflush(stdout);
}

static void set_system(struct conversation *c, const char *text) {
    char *content = strdup(text);
    if (!content) return;
    if (has_system(c)) {
        free(c->messages[0].content);
        c->messages[0].content = content;
        return;
    }
    free(content);
    if (!add_message(c, "system", text, strlen(text))) return;
    struct message system = c->messages[c->n_messages - 1];
    memmove(c->messages + 1, c->messages, (c->n_messages - 1) * sizeof *c->messages);
    c->messages[0] = system;
}

static void command_set(struct conversation *c, const char *rest) {
    char name[64];
    int at = 0;
    if (sscanf(rest, "%63s %n", name, &at) != 1 || !at) {
        show_settings(c);
        return;
    }
    const char *value = rest + at;
    const struct sampling_field *field = sampling_field_find(name);
    struct mx_error err = {0};
    char *end;
    double number = strtod(value, &end);
    if (!strcmp(name, "system")) set_system(c, value);
    else if (!strcmp(name, "reasoning")) c->shows_reasoning = !strcmp(value, "on");
    else if (end == value || *end) printf("%s needs a number.\n", name);
    else if (!strcmp(name, "max_tokens")) c->max_tokens = number < 1 ? -1 : (int64_t)number;
    else if (!field) printf("Unknown setting: %s. /set lists them.\n", name);
    else if (!sampling_set(&c->sampling, field, number, &err)) printf("%s\n", err.message);
    fflush(stdout);
}

static void command_save(struct conversation *c, const char *rest) {
    struct buffer out = {0};
    struct mx_error err = {0};
    write_messages(c, &out, 1);
    buffer_putc(&out, '\n');
    if (!*rest) say("/save needs a file name.");
    else if (out.failed || !file_write_atomic(rest, out.data, out.length, &err)) printf("%s\n", err.message);
    else printf("Saved %zu messages to %s.\n", c->n_messages, rest);
    fflush(stdout);
    buffer_free(&out);
}

static bool load_messages(struct conversation *c, const struct json *list, struct mx_error *err) {
    if (!json_is_array(list)) return error_set(err, ERROR_FORMAT, "is no JSON array of messages");
    for (uint32_t i = 0; i < list->count; i++) {
        const struct json *role = json_get(&list->items[i], "role"), *content = json_get(&list->items[i], "content");
        char name[32];
        if (!json_is_string(role) || !json_is_string(content) || role->count >= sizeof name)
            return error_set(err, ERROR_FORMAT, "message %u has no role or no text", i);
        memcpy(name, role->string, role->count);
        name[role->count] = '\0';
        if (!add_message(c, name, content->string, content->count)) return error_memory(err, "conversation");
    }
    return true;
}

static void command_load(struct conversation *c, const char *rest) {
    struct arena arena = {0};
    struct mx_error err = {0};
    size_t length;
    char *text = *rest ? file_read(rest, 256 << 20, &length, &err) : NULL;
    const struct json *list = text ? json_parse(&arena, text, length, 0, 64, &err) : NULL;
    if (!*rest) say("/load needs a file name.");
    else if (list) {
        drop_messages(c, 0);
        if (load_messages(c, list, &err)) printf("Loaded %zu messages.\n", c->n_messages);
        else drop_messages(c, 0);
    }
    if (err.code) printf("%s: %s\n", rest, err.message);
    fflush(stdout);
    free(text);
    arena_free(&arena);
}

static void command_stats(struct conversation *c, const char *rest) {
    (void)rest;
    printf("prompt %zu tokens, %zu of them from the cache; prefill %.2f s\nanswer %zu tokens, %.2f s, %.2f tok/s\n",
           c->last.n_prompt, c->last.n_cached, c->last.prefill, c->last.n_generated, c->last.decode,
           c->last.decode > 0 ? (double)c->last.n_generated / c->last.decode : 0.0);
    fflush(stdout);
}

static const struct {
    const char *name;
    void (*run)(struct conversation *c, const char *rest);
} commands[] = {
    {"/bye", command_bye},   {"/exit", command_bye},  {"/quit", command_bye}, {"/clear", command_clear},
    {"/set", command_set},   {"/save", command_save}, {"/load", command_load}, {"/stats", command_stats},
    {"/help", command_help}, {"/?", command_help},
};

static void run_command(struct conversation *c, const char *line) {
    size_t n = strcspn(line, " \t");
    const char *rest = line + n + strspn(line + n, " \t");
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (strlen(commands[i].name) == n && !memcmp(commands[i].name, line, n)) {
            commands[i].run(c, rest);
            return;
        }
    printf("Unknown command: %.*s. Type /? for the list of commands.\n", (int)n, line);
    fflush(stdout);
}

/* ---- the program ---- */

static bool has_chatml(const struct session *s) {
    uint32_t id;
    return tokenizer_find(s->tokenizer, "<|im_start|>", 12, &id);
}

static bool open_conversation(struct conversation *c, struct mx_error *err) {
    struct session *s = &c->session;
    c->max_tokens = options_integer(c->options, OPT_MAX_TOKENS);
    if (c->max_tokens < 1) c->max_tokens = -1;
    c->shows_reasoning = options_flag(c->options, OPT_SHOW_REASONING);
    if (!session_open_text(s, c->options, err) || !session_sampling(c->options, &c->sampling, err)) return false;
    if (!chat_template_exists(s->chat) && !options_flag(c->options, OPT_NO_CHAT_TEMPLATE)) {
        log_line(LOG_INFO, "the model has no chat template (a base model?): using %s",
                 has_chatml(s) ? "ChatML" : "plain 'role: content' lines");
        if (!chat_template_set_fallback(s->chat, has_chatml(s), err)) return false;
    }
    return session_check_memory(s, c->options, s->context_length, err) &&
           session_open_model(s, c->options, s->context_length, true, err) &&
           (open_editor(c) || error_memory(err, "line editor"));
}

static void banner(const struct conversation *c) {
    if (!c->is_terminal) {
        fprintf(stderr, "(non-interactive stdin detected: reading messages until EOF)\n");
        return;
    }
    printf("\nmlxcel interactive chat with %s. Type a message and press Enter.\n"
           "Commands: /bye (exit), /clear (reset conversation), /? (all commands).\n"
           "Multiline: open and close a block with \"\"\" on their own lines.\n\n",
           c->session.path);
    fflush(stdout);
}

int command_run(const struct options *options) {
    struct conversation c = {.options = options};
    struct mx_error err = {0};
    int status = 0;
    session_catch_interrupt();
    if (open_conversation(&c, &err)) {
        banner(&c);
        char *message;
        while (!c.is_done && (message = read_message(&c))) {
            if (message[0] == '/') run_command(&c, message);
            else if (message[0]) take_turn(&c, message);
            free(message);
        }
        if (ferror(stdout)) status = 1;
    } else {
        status = command_fail(&err);
    }
    drop_messages(&c, 0);
    free(c.messages);
    free(c.line);
    if (c.editor) el_end(c.editor);
    if (c.history) history_end(c.history);
    free((void *)(uintptr_t)c.sampling.logit_bias);
    session_close(&c.session);
    return status;
}
