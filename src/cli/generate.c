/* SPDX-License-Identifier: Apache-2.0 */
/* `mlxcel generate`: one prompt, one answer, streamed to stdout. Without a prompt it is `mlxcel run`. */
#include "cli/answer.h"
#include "cli/commands.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool generate(struct session *s, struct answer *a, const struct options *options, struct token_list *prompt,
                     struct sampling_params *sampling, struct mx_error *err) {
    int64_t wanted = options_integer(options, OPT_MAX_TOKENS);
    if (!session_open_text(s, options, err) || !session_sampling(options, sampling, err) ||
        !session_encode_prompt(s, options, options_text(options, OPT_PROMPT), prompt, err))
        return false;
    if (prompt->count >= s->context_length)
        return error_set(err, ERROR_USAGE, "the prompt has %zu tokens, the model's context is %u", prompt->count,
                         s->context_length);
    uint64_t cells = wanted < 0 ? s->context_length : prompt->count + (uint64_t)wanted;
    if (cells > s->context_length) cells = s->context_length;
    bool is_chat = chat_template_exists(s->chat) && !options_flag(options, OPT_NO_CHAT_TEMPLATE);
    if (!session_check_memory(s, options, (uint32_t)cells, err)) return false;
    if (wanted == 0) return true;
    if (!session_open_model(s, options, (uint32_t)cells, false, err)) return false;
    session_catch_interrupt(); /* from here on the first Ctrl-C ends the answer, not the program */
    return answer_run(a, s, options, prompt, sampling, wanted < 0 ? -1 : wanted, is_chat,
                      options_flag(options, OPT_SHOW_REASONING), err);
}

int command_generate(const struct options *options) {
    if (!options_is_set(options, OPT_PROMPT)) return command_run(options);
    struct session session = {0};
    struct answer answer = {0};
    struct token_list prompt = {0};
    struct sampling_params sampling = {0};
    struct mx_error err = {0};
    session_catch_interrupts(1);
    bool ok = generate(&session, &answer, options, &prompt, &sampling, &err);
    int status = 0;
    if (ok && answer.n_generated && !answer.ends_with_newline && (putchar('\n') < 0 || fflush(stdout) != 0))
        ok = error_set(&err, ERROR_IO, "cannot write the text: %s", strerror(errno));
    if (!ok)
        status = command_fail(&err);
    else if (answer.reason == FINISH_CANCELLED)
        status = 130;
    if (ok) answer_print_profile(&answer, options_flag(options, OPT_PROFILE));
    answer_free(&answer);
    free((void *)(uintptr_t)sampling.logit_bias);
    token_list_free(&prompt);
    session_close(&session);
    return status;
}
