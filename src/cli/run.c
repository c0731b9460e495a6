/* SPDX-License-Identifier: Apache-2.0 */
/* `mlxcel run`: a conversation on the terminal; with a prompt it is `mlxcel generate`.
 *
 * Each turn renders the whole conversation with the chat template; the engine keeps the cells of the last turn, so that
 * only what is new is computed. */
#include "cli/commands.h"
#include "cli/repl.h"

#include "base/log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- turns ---- */

static bool encode_plain(struct repl *r, struct token_list *tokens, struct mx_error *err) {
    struct buffer text = {0};
    const struct conversation *c = &r->conversation;
    for (size_t i = 0; i < c->n; i++) buffer_printf(&text, "%s%s", i ? "\n" : "", c->messages[i].content);
    bool ok = text.failed
                  ? error_memory(err, "conversation")
                  : tokenizer_encode(r->session.tokenizer, text.data, text.length, TOKENIZE_SPECIAL, tokens, err);
    buffer_free(&text);
    return ok;
}

static bool encode_chat(struct repl *r, struct token_list *tokens, struct mx_error *err) {
    struct buffer text = {0};
    struct arena arena = {0};
    conversation_write(&r->conversation, &text, 0);
    const struct json *messages = text.failed ? NULL : json_parse(&arena, text.data, text.length, 0, 16, err);
    if (text.failed) error_memory(err, "conversation");
    bool ok = messages && session_encode_chat(&r->session, r->options, messages, tokens, err);
    buffer_free(&text);
    arena_free(&arena);
    return ok;
}

static void keep_figures(struct repl *r, const struct answer *a) {
    r->last.n_prompt = a->n_prompt;
    r->last.n_cached = a->n_cached;
    r->last.n_generated = a->n_generated;
    r->last.prefill = (double)(a->first_token_ns - a->start_ns) * 1e-9;
    r->last.decode = (double)(a->end_ns - a->first_token_ns) * 1e-9;
}

/* One turn. A failure is reported and the message taken back; the program goes on. */
static void take_turn(struct repl *r, const char *message) {
    struct token_list prompt = {0};
    struct answer answer = {0};
    struct mx_error err = {0};
    bool is_chat = !options_flag(r->options, OPT_NO_CHAT_TEMPLATE);
    size_t before = r->conversation.n;
    session_clear_interrupt();
    bool ok =
        conversation_add(&r->conversation, "user", message, strlen(message)) || error_memory(&err, "conversation");
    ok = ok && (is_chat ? encode_chat(r, &prompt, &err) : encode_plain(r, &prompt, &err)) &&
         answer_run(&answer, &r->session, r->options, &prompt, &r->sampling, r->max_tokens, is_chat, r->shows_reasoning,
                    &err);
    if (answer.n_generated) fputs(answer.ends_with_newline ? "\n" : "\n\n", stdout);
    fflush(stdout);
    const char *text = answer.text.length ? answer.text.data : "";
    if (ok && !conversation_add(&r->conversation, "assistant", text, answer.text.length))
        ok = error_memory(&err, "conversation");
    if (!ok) {
        r->status = command_fail(&err);
        conversation_cut(&r->conversation, before);
    }
    if (answer.is_finished && answer.reason == FINISH_CANCELLED) {
        fprintf(stderr, "(answer stopped)\n");
        if (r->input.is_terminal)
            session_clear_interrupt();
        else
            r->is_done = true;
    }
    if (answer.is_finished) keep_figures(r, &answer);
    if (options_flag(r->options, OPT_PROFILE) && ok) answer_print_profile(&answer, true);
    answer_free(&answer);
    token_list_free(&prompt);
}

/* ---- the program ---- */

/* Where the model has no template. */
static bool set_fallback(struct repl *r, struct mx_error *err) {
    struct session *s = &r->session;
    uint32_t id;
    if (chat_template_exists(s->chat) || options_flag(r->options, OPT_NO_CHAT_TEMPLATE)) return true;
    bool has_chatml = tokenizer_find(s->tokenizer, "<|im_start|>", 12, &id);
    log_line(LOG_INFO, "the model has no chat template (a base model?): using %s",
             has_chatml ? "ChatML" : "plain 'role: content' lines");
    return chat_template_set_fallback(s->chat, has_chatml, err);
}

static bool open_repl(struct repl *r, struct mx_error *err) {
    struct session *s = &r->session;
    r->max_tokens = options_integer(r->options, OPT_MAX_TOKENS);
    if (r->max_tokens < 1) r->max_tokens = -1;
    r->shows_reasoning = options_flag(r->options, OPT_SHOW_REASONING);
    return session_open_text(s, r->options, err) && session_sampling(r->options, &r->sampling, err) &&
           set_fallback(r, err) && session_check_memory(s, r->options, s->context_length, err) &&
           session_open_model(s, r->options, s->context_length, true, err) &&
           (line_input_open(&r->input, repl_command_names) || error_memory(err, "line editor"));
}

/* The folder's own name. */
static const char *model_name(const char *path, char *room, size_t size) {
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/') n--;
    size_t from = n;
    while (from && path[from - 1] != '/') from--;
    snprintf(room, size, "%.*s", (int)(n - from), path + from);
    return room;
}

static void banner(const struct repl *r) {
    char name[256];
    if (!r->input.is_terminal) {
        fprintf(stderr, "(non-interactive stdin detected: reading messages until EOF)\n");
        return;
    }
    printf("\nmlxcel interactive chat with %s. Type a message and press Enter.\n"
           "Commands: /bye (exit), /clear (reset conversation), /? (all commands).\n"
           "Multiline: open and close a block with \"\"\" on their own lines, or end a line with \\.\n\n",
           model_name(r->session.path, name, sizeof name));
    fflush(stdout);
}

static void converse(struct repl *r) {
    while (!r->is_done) {
        char *text;
        enum input_kind kind = line_input_read(&r->input, &text);
        if (kind == INPUT_COMMAND)
            repl_command(r, text);
        else if (kind == INPUT_MESSAGE && text && *text)
            take_turn(r, text);
        else if (kind == INPUT_END) {
            r->is_done = true;
            if (r->input.is_terminal) putchar('\n');
        }
        free(text);
    }
}

int command_run(const struct options *options) {
    if (options_is_set(options, OPT_PROMPT)) return command_generate(options);
    struct repl r = {.options = options};
    struct mx_error err = {0};
    int status = 0;
    /* The first Ctrl-C stops an answer; a few more are for a program that does not listen. */
    session_catch_interrupts(isatty(STDIN_FILENO) ? 4 : 2);
    if (open_repl(&r, &err)) {
        banner(&r);
        converse(&r);
        if (!r.input.is_terminal) status = r.status;
        if (!r.input.is_terminal && ferror(stdin)) {
            error_set(&err, ERROR_IO, "standard input: %s", strerror(errno));
            status = command_fail(&err);
        }
        if (fflush(stdout) || ferror(stdout)) status = 1;
        if (session_was_interrupted()) status = 130;
    } else {
        status = command_fail(&err);
    }
    conversation_free(&r.conversation);
    line_input_close(&r.input);
    free((void *)(uintptr_t)r.sampling.logit_bias);
    session_close(&r.session);
    return status;
}
