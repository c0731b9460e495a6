/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/line_input.h"

#include "base/buffer.h"

#include <errno.h>
#include <histedit.h>
#include <locale.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FENCE "\"\"\""

/* ---- the editor ---- */

static struct line_input *input_of(EditLine *editor) {
    void *input = NULL;
    el_get(editor, EL_CLIENTDATA, &input);
    return input;
}

static char *show_prompt(EditLine *editor) { return (char *)(uintptr_t)input_of(editor)->prompt; }

static unsigned char discard_line(EditLine *editor, int key) {
    (void)key;
    input_of(editor)->was_interrupted = true;
    return CC_NEWLINE;
}

/* Ctrl-Z is a key like others while the editor reads; its signal handler puts the terminal in order. */
static unsigned char suspend(EditLine *editor, int key) {
    (void)editor, (void)key;
    raise(SIGTSTP);
    return CC_REDISPLAY;
}

/* The command that the line begins; where several fit, what they have in common. */
static unsigned char complete_command(EditLine *editor, int key) {
    (void)key;
    const LineInfo *info = el_line(editor);
    size_t n = (size_t)(info->cursor - info->buffer), n_fitting = 0, common = 0;
    const char *found = NULL;
    if (!n || info->buffer[0] != '/' || info->cursor != info->lastchar) return CC_ERROR;
    for (const char *const *c = input_of(editor)->commands; *c; c++) {
        if (strncmp(*c, info->buffer, n) != 0) continue;
        size_t same = 0;
        while (found && same < common && (*c)[same] == found[same]) same++;
        common = found ? same : strlen(*c);
        found = found ? found : *c;
        n_fitting++;
    }
    char rest[64];
    if (!found || common < n || common - n > sizeof rest - 2) return CC_ERROR;
    memcpy(rest, found + n, common - n);
    memcpy(rest + common - n, " ", 2);
    if (n_fitting > 1) rest[common - n] = '\0';
    if (!rest[0]) return CC_ERROR;
    el_insertstr(editor, rest);
    return CC_REFRESH;
}

/* libedit reads wide characters: without a UTF-8 locale it drops everything beyond ASCII. */
static void set_character_set(void) {
    const char *name = setlocale(LC_CTYPE, "");
    if (!name || MB_CUR_MAX < 4) setlocale(LC_CTYPE, "C.UTF-8");
}

static bool open_editor(struct line_input *in) {
    HistEvent event;
    set_character_set();
    in->editor = el_init("mlxcel", stdin, stdout, stderr);
    in->history = history_init();
    if (!in->editor || !in->history) return false;
    history(in->history, &event, H_SETSIZE, 1000);
    history(in->history, &event, H_SETUNIQUE, 1);
    el_set(in->editor, EL_CLIENTDATA, in);
    el_set(in->editor, EL_PROMPT, show_prompt);
    el_set(in->editor, EL_EDITOR, "emacs");
    el_set(in->editor, EL_SIGNAL, 1);
    el_set(in->editor, EL_HIST, history, in->history);
    el_set(in->editor, EL_ADDFN, "discard-line", "give up the line", discard_line);
    el_set(in->editor, EL_ADDFN, "suspend", "stop the program for a while", suspend);
    el_set(in->editor, EL_ADDFN, "complete-command", "complete a command", complete_command);
    el_source(in->editor, NULL);
    el_set(in->editor, EL_BIND, "^C", "discard-line", NULL);
    el_set(in->editor, EL_BIND, "^Z", "suspend", NULL);
    el_set(in->editor, EL_BIND, "^I", "complete-command", NULL);
    /* While a line is edited these are keys, not signals: the line that Ctrl-C gives up is then known to be that one. */
    el_set(in->editor, EL_SETTY, "-d", "-isig", NULL);
    return true;
}

bool line_input_open(struct line_input *in, const char *const *commands) {
    *in = (struct line_input){.is_terminal = isatty(STDIN_FILENO), .commands = commands};
    return !in->is_terminal || open_editor(in);
}

void line_input_close(struct line_input *in) {
    if (in->editor) el_end(in->editor);
    if (in->history) history_end(in->history);
    free(in->line);
    *in = (struct line_input){0};
}

/* ---- lines ---- */

/* One line without its line break, borrowed until the next call; NULL at the end of input or after Ctrl-C. */
static const char *edit_line(struct line_input *in) {
    int n = 0;
    HistEvent event;
    in->was_interrupted = false;
    el_set(in->editor, EL_PREP_TERM, 1); /* libedit itself does it only after the prompt is shown */
    const char *line = el_gets(in->editor, &n);
    if (!line && n < 0 && errno == EINTR) in->was_interrupted = true; /* a signal from elsewhere */
    if (in->was_interrupted || !line || n <= 0) return NULL;
    if (n > 1) history(in->history, &event, H_ENTER, line);
    free(in->line);
    in->line = strndup(line, (size_t)(line[n - 1] == '\n' ? n - 1 : n));
    return in->line;
}

static const char *read_line(struct line_input *in, const char *prompt) {
    in->prompt = prompt;
    if (in->editor) return edit_line(in);
    ssize_t n = getline(&in->line, &in->line_room, stdin);
    if (n < 0) return NULL;
    if (n && in->line[n - 1] == '\n') in->line[--n] = '\0';
    if (n && in->line[n - 1] == '\r') in->line[--n] = '\0';
    return in->line;
}

/* ---- messages ---- */

static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

static char *trimmed(const char *text, size_t length) {
    while (length && is_space(*text)) text++, length--;
    while (length && is_space(text[length - 1])) length--;
    return strndup(length ? text : "", length);
}

static bool take_continuation(const char *line, size_t *length) {
    size_t n = strlen(line), n_marks = 0;
    while (n_marks < n && line[n - 1 - n_marks] == '\\') n_marks++;
    *length = n - n_marks % 2;
    return n_marks % 2;
}

/* Lines up to one that does not end in a backslash. */
static bool read_continued(struct line_input *in, const char *line, struct buffer *text) {
    size_t length;
    bool goes_on = true;
    while (line && goes_on) {
        goes_on = take_continuation(line, &length);
        buffer_append(text, line, length);
        if (!goes_on) return true;
        buffer_putc(text, '\n');
        line = read_line(in, "... ");
    }
    return !in->was_interrupted;
}

/* From behind the opening fence up to the closing one, or the end of input. */
static bool read_block(struct line_input *in, const char *line, struct buffer *text) {
    while (line) {
        const char *close = strstr(line, FENCE);
        buffer_append(text, line, close ? (size_t)(close - line) : strlen(line));
        if (close) return true;
        buffer_putc(text, '\n');
        line = read_line(in, "... ");
    }
    return !in->was_interrupted;
}

static enum input_kind discarded(struct line_input *in, bool is_block) {
    in->was_interrupted = false;
    printf(is_block ? "\n(^C - multiline input discarded)\n" : "\n(^C - type /bye to exit)\n");
    fflush(stdout);
    return INPUT_DISCARDED;
}

enum input_kind line_input_read(struct line_input *in, char **text) {
    struct buffer joined = {0};
    *text = NULL;
    const char *line = read_line(in, ">>> ");
    if (!line) return in->was_interrupted ? discarded(in, false) : INPUT_END;
    bool is_block = strncmp(line, FENCE, 3) == 0, is_long = false;
    bool ok = is_block ? read_block(in, line + 3, &joined) : read_continued(in, line, &joined);
    if (ok && !joined.failed) *text = trimmed(joined.length ? joined.data : "", joined.length);
    for (size_t i = 0; i < joined.length; i++) is_long |= joined.data[i] == '\n';
    buffer_free(&joined);
    if (!ok) return discarded(in, true);
    return !is_block && !is_long && *text && **text == '/' ? INPUT_COMMAND : INPUT_MESSAGE;
}
