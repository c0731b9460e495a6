/* SPDX-License-Identifier: Apache-2.0 */
/* A program with libmlxcel: answers a chat message with a checkpoint folder.
 *
 *   cc examples/generate.c $(pkg-config --cflags --libs mlxcel) -o generate
 *   ./generate MODEL_FOLDER "Tell me a story."
 *
 * Where the library is installed outside of the loader's folders, the second line needs LD_LIBRARY_PATH=PREFIX/lib. */
#include <mlxcel/mlxcel.h>

#include <stdio.h>
#include <string.h>

/* Prints text as it comes. */
static bool on_event(void *context, const struct mlxcel_event *event) {
    (void)context;
    fwrite(event->text, 1, event->length, stdout);
    fflush(stdout);
    if (event->is_last) {
        printf("\n");
        fprintf(stderr, "%zu prompt tokens, %zu generated\n", event->n_prompt, event->n_generated);
        if (event->finish == MLXCEL_FINISH_ERROR) fprintf(stderr, "error: %s\n", event->error_message);
    }
    return true;
}

int main(int argc, char **argv) {
    struct mlxcel_error error;
    char messages[4096];
    if (argc != 3 || strpbrk(argv[2], "\"\\\n") || strlen(argv[2]) > 4000) {
        fprintf(stderr, "usage: %s MODEL_FOLDER MESSAGE   (without quotes and backslashes)\n", argv[0]);
        return 2;
    }
    struct mlxcel_model *model = mlxcel_open(argv[1], NULL, &error);
    if (!model) {
        fprintf(stderr, "%s\n", error.message);
        return 1;
    }
    snprintf(messages, sizeof messages, "[{\"role\": \"user\", \"content\": \"%s\"}]", argv[2]);
    char *prompt = mlxcel_chat_prompt(model, messages, NULL, &error);
    size_t n = 0;
    uint32_t *tokens = prompt ? mlxcel_tokenize(model, prompt, false, &n, &error) : NULL;

    struct mlxcel_request request;
    mlxcel_request_init(&request);
    request.prompt = tokens;
    request.n_prompt = n;
    request.max_tokens = 100;
    request.temperature = 0.7;
    request.top_p = 0.9;
    request.seed = 1;
    request.on_event = on_event;
    bool ok = tokens && mlxcel_submit(model, &request, &error) != 0;
    while (ok && mlxcel_step(model)) continue;
    if (!ok) fprintf(stderr, "%s\n", error.message);

    mlxcel_free(tokens);
    mlxcel_free(prompt);
    mlxcel_close(model);
    return ok ? 0 : 1;
}
