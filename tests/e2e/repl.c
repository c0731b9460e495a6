/* SPDX-License-Identifier: Apache-2.0 */
/* `mlxcel run` as a person meets it: on a pseudo-terminal with the bundled model, and on a pipe. */
#include "tests/support/process.h"
#include "tests/support/tap.h"

#include "base/clock.h"
#include "base/file.h"

#include <errno.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MODEL SOURCE_DIR "/models/novels-24m-4bit"

static struct arena arena;

/* ---- a terminal ---- */

struct terminal {
    pid_t pid;
    int fd;
    struct buffer screen; /* all that the program wrote */
    size_t seen;          /* up to here it was waited for */
};

static bool terminal_open(struct terminal *t, const char *const *argv) {
    struct winsize size = {.ws_row = 40, .ws_col = 200};
    *t = (struct terminal){0};
    t->pid = forkpty(&t->fd, NULL, NULL, &size);
    if (t->pid == 0) {
        setenv("TERM", "xterm", 1);
        setenv("LC_ALL", "C.UTF-8", 1);
        execv(argv[0], (char *const *)(uintptr_t)argv);
        _exit(127);
    }
    return t->pid > 0;
}

/* Waits for a piece of output. */
static bool take_output(struct terminal *t, double seconds) {
    struct pollfd fd = {.fd = t->fd, .events = POLLIN};
    char piece[4096];
    if (seconds <= 0 || poll(&fd, 1, (int)(seconds * 1000) + 1) <= 0) return false;
    ssize_t n = read(t->fd, piece, sizeof piece);
    return n > 0 && buffer_append(&t->screen, piece, (size_t)n);
}

/* Reads for as long as `text` has not come; what stands before it was seen then. */
static bool expect(struct terminal *t, const char *text, double seconds) {
    uint64_t start = clock_now_ns();
    for (;;) {
        const char *from = t->screen.data ? t->screen.data + t->seen : NULL;
        const char *found = from ? memmem(from, t->screen.length - t->seen, text, strlen(text)) : NULL;
        if (found) {
            t->seen = (size_t)(found - t->screen.data) + strlen(text);
            return true;
        }
        if (!take_output(t, seconds - clock_seconds_since(start))) return false;
    }
}

/* An answer has begun: more has come than the line that was typed and its echo. */
static bool expect_answer(struct terminal *t) {
    size_t until = t->seen + 80;
    uint64_t start = clock_now_ns();
    while (t->screen.length < until)
        if (!take_output(t, 30 - clock_seconds_since(start))) return false;
    t->seen = until;
    return true;
}

static void type(struct terminal *t, const char *keys) {
    size_t n = strlen(keys);
    if (write(t->fd, keys, n) != (ssize_t)n) tap_note("the terminal takes no keys");
}

/* Waits for the end; the exit status, or -1. */
static int terminal_close(struct terminal *t) {
    int status = 0;
    pid_t ended = 0;
    uint64_t start = clock_now_ns();
    char piece[4096];
    while (!(ended = waitpid(t->pid, &status, WNOHANG)) && clock_seconds_since(start) < 20) {
        struct pollfd fd = {.fd = t->fd, .events = POLLIN};
        if (poll(&fd, 1, 50) > 0 && read(t->fd, piece, sizeof piece) < 0 && errno != EIO) break;
    }
    if (!ended) {
        kill(t->pid, SIGKILL);
        waitpid(t->pid, &status, 0);
    }
    close(t->fd);
    buffer_free(&t->screen);
    return ended > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static bool check(struct terminal *t, bool ok, const char *name) {
    if (!tap_ok(ok, "%s", name) && t->screen.data)
        tap_note("unseen: %s", t->screen.data + (t->seen < t->screen.length ? t->seen : t->screen.length));
    return ok;
}

/* ---- conversations ---- */

static bool start(struct terminal *t, const char *n) {
    const char *argv[] = {program_path("mlxcel"), "run", "-m", MODEL, "-n", n, "--ignore-eos", NULL};
    return terminal_open(t, argv) && expect(t, "mlxcel interactive chat", 30) && expect(t, ">>> ", 30);
}

static void messages_are_answered(void) {
    struct terminal t;
    if (!check(&t, start(&t, "12"), "the_banner_and_a_prompt_appear")) return;
    type(&t, "Once upon a time\r");
    check(&t, expect(&t, "\n", 10) && expect(&t, ">>> ", 30), "a_message_is_answered");
    type(&t, "/stats\r");
    size_t n_prompt = 0, n_kept = 0, n_new = 0, n_next = 0;
    bool ok = expect(&t, "prompt:  ", 10) && expect(&t, ">>> ", 10);
    const char *line = ok ? strstr(t.screen.data, "prompt:  ") : NULL;
    ok = line &&
         sscanf(line, "prompt: %zu tokens, %zu kept from before, %zu prefilled", &n_prompt, &n_kept, &n_new) == 3;
    check(&t, ok && n_kept == 0 && n_new == n_prompt, "the_first_turn_is_prefilled");
    type(&t, "And then?\r");
    expect(&t, "\n", 10);
    expect(&t, ">>> ", 30);
    size_t from = t.seen;
    type(&t, "/stats\r");
    ok = expect(&t, "prompt:  ", 10) && expect(&t, ">>> ", 10);
    line = ok ? strstr(t.screen.data + from, "prompt:  ") : NULL;
    ok = line && sscanf(line, "prompt: %zu tokens, %zu kept from before, %zu prefilled", &n_next, &n_kept, &n_new) == 3;
    /* kept: the prompt and the answer of 12 tokens, but for the last, which was drawn and not computed */
    check(&t, ok && n_kept == n_prompt + 11 && n_new == n_next - n_kept, "later_turns_prefill_only_what_is_new");
    type(&t, "/bye\r");
    check(&t, expect(&t, "Bye!", 10), "bye_says_goodbye");
    tap_ok(terminal_close(&t) == 0, "bye_leaves");
}

static void keys_do_what_they_should(void) {
    struct terminal t;
    if (!check(&t, start(&t, "4"), "a_second_conversation_starts")) return;
    type(&t, "half a line\x03");
    check(&t, expect(&t, "(^C - type /bye to exit)", 10) && expect(&t, ">>> ", 10), "ctrl_c_gives_up_the_line");
    type(&t, "/show model\r");
    check(&t, expect(&t, "context of 1024 tokens", 10) && expect(&t, ">>> ", 10), "show_tells_the_model");
    type(&t, "\033[A\r");
    check(&t, expect(&t, "context of 1024 tokens", 10) && expect(&t, ">>> ", 10),
          "the_arrow_brings_the_last_line_back");
    type(&t, "/sh\t");
    expect(&t, "/show ", 10);
    type(&t, "system\r");
    check(&t, expect(&t, "(no system prompt)", 10) && expect(&t, ">>> ", 10), "tab_completes_commands");
    type(&t, "\"\"\"one\r");
    check(&t, expect(&t, "... ", 10), "a_block_goes_on");
    type(&t, "two\x03");
    check(&t, expect(&t, "multiline input discarded", 10) && expect(&t, ">>> ", 10), "ctrl_c_gives_up_the_block");
    type(&t, "\"\"\"/not a command\r");
    expect(&t, "... ", 10);
    type(&t, "Gr\xc3\xbc\xc3\x9f"
             "e\"\"\"\r");
    check(&t, expect(&t, "\n", 10) && expect(&t, ">>> ", 30), "a_block_is_answered");
    type(&t, "first\\\r");
    expect(&t, "... ", 10);
    type(&t, "second\r");
    check(&t, expect(&t, "\n", 10) && expect(&t, ">>> ", 30), "a_backslash_goes_on");
    type(&t, "/show messages\r");
    bool ok = expect(&t,
                     "[user] /not a command\r\nGr\xc3\xbc\xc3\x9f"
                     "e\r\n",
                     10) &&
              expect(&t, "[user] first\r\nsecond\r\n", 10);
    check(&t, ok && expect(&t, ">>> ", 10), "messages_of_several_lines_keep_them");
    type(&t, "/nonsense\r");
    check(&t, expect(&t, "Unknown command: /nonsense", 10) && expect(&t, ">>> ", 10), "unknown_commands_are_named");
    type(&t, "/clear\r");
    check(&t, expect(&t, "Conversation cleared.", 10) && expect(&t, ">>> ", 10), "clear_forgets");
    type(&t, "\x04");
    tap_ok(terminal_close(&t) == 0, "ctrl_d_leaves");
}

static void ctrl_c_stops_the_answer_alone(void) {
    struct terminal t;
    if (!check(&t, start(&t, "900"), "a_third_conversation_starts")) return;
    type(&t, "Tell me everything\r");
    bool ok = expect_answer(&t);
    type(&t, "\x03");
    ok = ok && expect(&t, "(answer stopped)", 20) && expect(&t, ">>> ", 10);
    check(&t, ok, "ctrl_c_stops_the_answer");
    type(&t, "/show messages\r");
    check(&t, expect(&t, "[assistant] ", 10) && expect(&t, ">>> ", 10), "what_was_said_stays_in_the_conversation");
    type(&t, "Go on\r");
    ok = expect_answer(&t);
    type(&t, "\x03");
    check(&t, ok && expect(&t, "(answer stopped)", 20) && expect(&t, ">>> ", 10), "and_again");
    type(&t, "/bye\r");
    tap_ok(terminal_close(&t) == 0, "an_interrupted_conversation_ends_well");
}

/* The prompt opens a block of reasoning that the model never closes. */
static void reasoning_is_hidden_or_dimmed(void) {
    static const char template[] =
        "{{ '<|im_start|>user\n' ~ messages[-1].content ~ '<|im_end|>\n<|im_start|>assistant\n<think>\n' }}";
    const char *hidden[] = {program_path("mlxcel"), "run", "-m", MODEL, "-n", "8", "--chat-template", template, NULL};
    const char *shown[] = {program_path("mlxcel"), "run", "-m", MODEL, "-n", "8", "--chat-template", template,
                           "--show-reasoning",     NULL};
    struct process p;
    struct terminal t;
    bool ok = process_start(&p, hidden, NULL, "Hello\n", 6, false);
    if (ok) process_finish(&p, 60000);
    ok = ok && p.status == 0 && p.err.data && strstr(p.err.data, "nothing but reasoning");
    if (!tap_ok(ok && p.out.length < 4, "reasoning_is_hidden")) tap_note("%s%s", p.out.data, p.err.data);
    process_free(&p);
    ok = process_start(&p, shown, NULL, "Hello\n", 6, false);
    if (ok) process_finish(&p, 60000);
    tap_ok(ok && p.out.length > 10 && !strchr(p.out.data, '\033'), "reasoning_is_shown_plainly_on_a_pipe");
    process_free(&p);
    ok = terminal_open(&t, shown) && expect(&t, ">>> ", 30);
    type(&t, "Hello\r");
    ok = ok && expect(&t, "\033[2m", 30) && expect(&t, "\033[0m", 30) && expect(&t, ">>> ", 30);
    check(&t, ok, "reasoning_is_dimmed_on_a_terminal");
    type(&t, "\x04");
    tap_ok(terminal_close(&t) == 0, "and_the_conversation_ends");
}

/* The program is halted for a while, so that it is slow on any machine. */
static void what_takes_long_shows_a_sign_of_life(void) {
    static const char template[] =
        "{{ '<|im_start|>user\n' ~ messages[-1].content ~ '<|im_end|>\n<|im_start|>assistant\n<think>\n' }}";
    const char *argv[] = {program_path("mlxcel"), "run",    "-m", MODEL, "-n", "900", "--ignore-eos",
                          "--chat-template",      template, NULL};
    struct process p;
    bool ok = process_start(&p, argv, NULL, "Hello\n", 6, false);
    usleep(400000);
    ok = ok && kill(p.pid, SIGSTOP) == 0;
    usleep(2300000);
    ok = ok && kill(p.pid, SIGCONT) == 0;
    if (ok) process_finish(&p, 120000);
    const char *err = p.err.data ? p.err.data : "";
    ok = ok && p.status == 0 && (strstr(err, "mlxcel: thinking: ") || strstr(err, "mlxcel: reading the prompt"));
    if (!tap_ok(ok, "what_takes_long_shows_a_sign_of_life")) tap_note("%d %s", p.status, err);
    process_free(&p);
}

/* ---- pipes ---- */

static void run_with(struct process *p, const char *const *argv, const char *input) {
    if (process_start(p, argv, NULL, input, strlen(input), false)) process_finish(p, 60000);
}

#define OUT(p) ((p).out.data ? (p).out.data : "")
#define ERR(p) ((p).err.data ? (p).err.data : "")

static void pipes_are_read(void) {
    struct process p;
    char folder[200];
    folder_make_temporary(folder, sizeof folder);
    const char *argv[] = {program_path("mlxcel"), "run", "-m", MODEL, "-n", "6", NULL};
    run_with(&p, argv, "Hello\r\n\n\"\"\"\na\nb\n\"\"\"\n/show messages");
    bool ok =
        p.status == 0 && strstr(OUT(p), "[user] Hello\n[assistant] ") && strstr(OUT(p), "[user] a\nb\n[assistant] ");
    if (!tap_ok(ok && !strstr(OUT(p), ">>>"), "messages_come_from_a_pipe"))
        tap_note("%d %s%s", p.status, OUT(p), ERR(p));
    process_free(&p);

    const char *once[] = {program_path("mlxcel"), "run", "-m", MODEL, "-n", "6", "-p", "Hello", NULL};
    const char *generate[] = {program_path("mlxcel"), "generate", "-m", MODEL, "-n", "6", "-p", "Hello", NULL};
    struct process q;
    run_with(&p, once, "/nonsense\n");
    run_with(&q, generate, "");
    tap_ok(p.status == 0 && p.out.length && !strcmp(OUT(p), OUT(q)), "run_with_a_prompt_is_generate");
    process_free(&p);
    process_free(&q);

    const char *path = arena_printf(&arena, "%s/saved.json", folder);
    run_with(&p, argv, arena_printf(&arena, "/set system Be brief.\nHi\n/save %s\n", path));
    ok = p.status == 0 && strstr(OUT(p), "Saved 3 messages");
    process_free(&p);
    run_with(&p, argv,
             arena_printf(&arena, "/load /nonexistent\nX\n/load %s\n/show messages\n/clear\n/show messages\n", path));
    ok = ok && strstr(OUT(p), "/nonexistent: ") &&
         strstr(OUT(p), "Loaded 3 messages.\n[system] Be brief.\n[user] Hi\n[assistant] ") &&
         strstr(OUT(p), "cleared.\n[system] Be brief.\n");
    if (!tap_ok(ok && p.status == 0, "conversations_are_saved_and_loaded"))
        tap_note("%d %s%s", p.status, OUT(p), ERR(p));
    process_free(&p);

    run_with(
        &p, argv,
        "/set temperature 0.5\n/set max_tokens 3\n/set nope 1\n/set top_p x\n/set reasoning on\n/set top_p 7\n/show\n");
    ok = strstr(OUT(p), "Unknown setting: nope") && strstr(OUT(p), "top_p needs a number") &&
         strstr(OUT(p), "temperature          0.5\n") && strstr(OUT(p), "max_tokens           3\n") &&
         strstr(OUT(p), "reasoning            on\n") && !strstr(OUT(p), "top_p                7");
    if (!tap_ok(ok && p.status == 0, "settings_are_changed_and_shown")) tap_note("%d %s%s", p.status, OUT(p), ERR(p));
    process_free(&p);
    folder_remove(folder);
}

/* ---- other templates ---- */

static char *replaced(const char *text, const char *old, const char *new) {
    struct buffer out = {0};
    const char *at;
    while ((at = strstr(text, old))) {
        buffer_append(&out, text, (size_t)(at - text));
        buffer_puts(&out, new);
        text = at + strlen(old);
    }
    buffer_puts(&out, text);
    char *copy = arena_copy(&arena, out.data, out.length);
    buffer_free(&out);
    return copy;
}

static bool put(const char *folder, const char *name, const char *text) {
    struct mx_error err = {0};
    return file_write_atomic(arena_printf(&arena, "%s/%s", folder, name), text, strlen(text), &err);
}

/* The bundled model with another tokenizer.json and tokenizer_config.json. */
static bool make_model(char *folder, size_t room, const char *tokenizer, const char *config) {
    static const char *const links[] = {"config.json", "generation_config.json", "model.safetensors",
                                        "model.safetensors.index.json"};
    bool ok = folder_make_temporary(folder, room);
    for (size_t i = 0; ok && i < sizeof links / sizeof *links; i++)
        ok = symlink(arena_printf(&arena, MODEL "/%s", links[i]), arena_printf(&arena, "%s/%s", folder, links[i])) == 0;
    return ok && put(folder, "tokenizer.json", tokenizer) && put(folder, "tokenizer_config.json", config);
}

static size_t prompt_tokens(const char *folder, const char *extra) {
    const char *argv[] = {
        program_path("mlxcel"), "generate", "-m", folder, "-p", "Hello", "-n", "1", "--profile", extra, NULL};
    struct process p;
    size_t n = 0;
    run_with(&p, argv, "");
    const char *line = strstr(ERR(p), "Prompt tokens:");
    if (!line || sscanf(line, "Prompt tokens: %zu", &n) != 1) tap_note("%s", ERR(p));
    process_free(&p);
    return n;
}

static void models_without_template_get_a_fallback(const char *tokenizer) {
    struct process p;
    for (int has_chatml = 0; has_chatml < 2; has_chatml++) {
        char folder[200];
        const char *vocabulary = has_chatml ? tokenizer : replaced(tokenizer, "<|im_start|>", "<|xx_start|>");
        bool ok = make_model(folder, sizeof folder, vocabulary, "{\"eos_token\": \"<|im_end|>\"}");
        const char *run[] = {program_path("mlxcel"), "run", "-m", folder, "-n", "4", NULL};
        run_with(&p, run, "Hello\n");
        ok = ok && p.status == 0 && strstr(ERR(p), "no chat template") &&
             strstr(ERR(p), has_chatml ? "ChatML" : "role: content");
        if (!tap_ok(ok, "%s", has_chatml ? "chatml_with_a_notice" : "plain_lines_with_a_notice"))
            tap_note("%s", ERR(p));
        process_free(&p);
        const char *generate[] = {program_path("mlxcel"), "generate", "-m", folder, "-n", "4", "-p", "Hello", NULL};
        run_with(&p, generate, "");
        tap_ok(p.status == 0 && strstr(ERR(p), "as it is"), "generate_takes_the_prompt_as_it_is");
        process_free(&p);
        tap_ok(prompt_tokens(folder, NULL) == prompt_tokens(folder, "--no-chat-template"), "which_is_no_chat_template");
        folder_remove(folder);
    }
}

/* The tokenizer adds a BOS of its own to plain text; <|endoftext|> serves as one. */
static void a_bos_is_written_once(const char *tokenizer) {
    const char *with_bos = replaced(tokenizer, "\"post_processor\": null",
                                    "\"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": "
                                    "[{\"SpecialToken\": {\"id\": \"<|endoftext|>\", "
                                    "\"type_id\": 0}}, {\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}], \"pair\": [], "
                                    "\"special_tokens\": {\"<|endoftext|>\": "
                                    "{\"id\": \"<|endoftext|>\", \"ids\": [0], \"tokens\": [\"<|endoftext|>\"]}}}");
    static const char *const templates[] = {"{{ bos_token }}{{ messages[0].content }}", "{{ messages[0].content }}"};
    size_t n[2], n_raw = 0, n_bare = 0;
    char folder[200];
    bool ok = strcmp(with_bos, tokenizer) != 0;
    if (!ok) tap_note("the tokenizer has a post-processor already");
    for (int i = 0; i < 2; i++) {
        ok = make_model(
                 folder, sizeof folder, with_bos,
                 arena_printf(&arena, "{\"bos_token\": \"<|endoftext|>\", \"chat_template\": \"%s\"}", templates[i])) &&
             ok;
        n[i] = prompt_tokens(folder, NULL);
        n_raw = prompt_tokens(folder, "--no-chat-template");
        folder_remove(folder);
    }
    ok = make_model(folder, sizeof folder, tokenizer, "{}") && ok;
    n_bare = prompt_tokens(folder, NULL);
    folder_remove(folder);
    ok = ok && n_bare && n_raw == n_bare + 1;
    tap_ok(ok && n[0] == n_raw, "no_second_bos_where_the_template_wrote_one");
    tap_ok(ok && n[1] == n_bare, "none_where_the_template_meant_none");
}

/* Where the vocabulary has the marks of reasoning, a template is told to let the model think. */
static void thinking_is_on_where_the_vocabulary_has_it(const char *tokenizer) {
    const char *marked = replaced(replaced(tokenizer, "<|im_start|>", "<think>"), "<|endoftext|>", "</think>");
    const char *config =
        "{\"chat_template\": \"{{ 'a' if enable_thinking is defined and enable_thinking else 'a b c d e f' }}\"}";
    char folder[200];
    bool ok = make_model(folder, sizeof folder, marked, config);
    size_t with = prompt_tokens(folder, NULL);
    folder_remove(folder);
    ok = make_model(folder, sizeof folder, tokenizer, config) && ok;
    size_t without = prompt_tokens(folder, NULL);
    folder_remove(folder);
    tap_ok(ok && with && with < without, "thinking_is_on_where_the_vocabulary_has_it");
}

int main(void) {
    struct mx_error err;
    size_t length;
    messages_are_answered();
    keys_do_what_they_should();
    ctrl_c_stops_the_answer_alone();
    reasoning_is_hidden_or_dimmed();
    what_takes_long_shows_a_sign_of_life();
    pipes_are_read();
    char *tokenizer = file_read(MODEL "/tokenizer.json", 64 << 20, &length, &err);
    if (tap_ok(tokenizer != NULL, "the bundled tokenizer")) {
        models_without_template_get_a_fallback(tokenizer);
        a_bos_is_written_once(tokenizer);
        thinking_is_on_where_the_vocabulary_has_it(tokenizer);
    }
    free(tokenizer);
    arena_free(&arena);
    return tap_done();
}
