/* SPDX-License-Identifier: Apache-2.0 */
/* What chat templates cost: compiling one, rendering a conversation with it, opening it as a model's template (which
 * renders the probes of chat_adapt.h too). Medians over rounds.
 *
 *   build/release/bench/template [TEMPLATE.jinja CONTEXT.json]     default tests/data/chat-example.{jinja,json}
 *
 * CONTEXT.json holds every variable. scripts/check-templates.py speed does the same with jinja2. */
#include "base/clock.h"
#include "base/file.h"
#include "text/chat_template.h"

#include <stdio.h>
#include <stdlib.h>

enum { N_ROUNDS = 25, ROUND_NS = 20000000 };

struct work {
    const char *text;
    size_t length;
    const struct json *context;
    struct jinja_template *template;
    struct buffer out;
};

static bool compile(struct work *w) {
    struct mx_error err;
    struct jinja_template *t = jinja_compile(w->text, w->length, &err);
    jinja_free(t);
    return t != NULL;
}

static bool render(struct work *w) {
    struct mx_error err;
    buffer_clear(&w->out);
    return jinja_render(w->template, w->context, NULL, &w->out, &err);
}

static bool open_probed(struct work *w) {
    struct mx_error err;
    struct chat_template *t = chat_template_from_text(w->text, w->length, NULL, &err);
    chat_template_close(t);
    return t != NULL;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Microseconds a call; negative when one fails. */
static double measure(bool (*call)(struct work *), struct work *w) {
    double rounds[N_ROUNDS];
    for (int i = 0; i < N_ROUNDS; i++) {
        uint64_t start = clock_now_ns(), took = 0, n = 0;
        while (took < ROUND_NS) {
            if (!call(w)) return -1;
            n++;
            took = clock_now_ns() - start;
        }
        rounds[i] = (double)took / (double)n * 1e-3;
    }
    qsort(rounds, N_ROUNDS, sizeof *rounds, ascending);
    return rounds[N_ROUNDS / 2];
}

static int run(struct work *w, struct mx_error *err) {
    w->template = jinja_compile(w->text, w->length, err);
    if (!w->template || !jinja_render(w->template, w->context, NULL, &w->out, err)) {
        fprintf(stderr, "%s\n", err->message);
        return 1;
    }
    double rendering = measure(render, w);
    printf("template of %zu bytes, rendering of %zu bytes\n", w->length, w->out.length);
    printf("compile  %9.1f us\n", measure(compile, w));
    printf("open     %9.1f us (compile and probe)\n", measure(open_probed, w));
    printf("render   %9.1f us = %.0f a second, %.1f MB/s\n", rendering, 1e6 / rendering,
           (double)w->out.length / rendering);
    return 0;
}

int main(int argc, char **argv) {
    const char *paths[2] = {"tests/data/chat-example.jinja", "tests/data/chat-example.json"};
    struct arena arena = {0};
    struct mx_error err = {0};
    struct work w = {0};
    size_t length;
    if (argc == 3) paths[0] = argv[1], paths[1] = argv[2];
    char *text = file_read(paths[0], 4 << 20, &w.length, &err), *context = file_read(paths[1], 64 << 20, &length, &err);
    w.text = text;
    if (text && context)
        w.context = json_parse(&arena, context, length, JSON_ALLOW_NAN | JSON_PYTHON_INTEGERS, 400, &err);
    int status = w.context ? run(&w, &err) : 1;
    if (!w.context) fprintf(stderr, "%s\n", err.message);
    jinja_free(w.template);
    buffer_free(&w.out);
    free(text);
    free(context);
    arena_free(&arena);
    return status;
}
