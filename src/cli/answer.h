/* SPDX-License-Identifier: Apache-2.0 */
/* One answer on the terminal: tokens become text on stdout, reasoning is hidden or dimmed, figures are kept. */
#ifndef MLXCEL_CLI_ANSWER_H
#define MLXCEL_CLI_ANSWER_H

#include "cli/progress.h"
#include "cli/session.h"
#include "text/constraint.h"
#include "text/text_stream.h"

struct answer {
    struct session *session;
    struct text_stream stream;
    struct reply *reply;
    struct constraint *constraint; /* NULL = the model writes what it likes */
    struct stop_string *stops;
    bool shows_reasoning, is_dim, ends_with_newline;
    bool has_hidden, has_text; /* reasoning that was not shown; text that was */
    struct buffer text;        /* the whole answer as decoded, markers included: for the conversation's history */
    uint64_t start_ns, first_token_ns, end_ns;
    size_t n_prompt, n_generated, n_cached;
    bool is_finished;
    struct progress progress; /* until the first text */
    enum finish_reason reason;
    struct mx_error error; /* of the request, or of writing */
};

/* Generates for the prompt and streams to stdout; is_chat: the prompt comes from a chat template, so that reasoning and the
 * like are told apart. Ctrl-C ends the answer (reason FINISH_CANCELLED). False with the error set. answer_free in any
 * case. */
bool answer_run(struct answer *answer, struct session *session, const struct options *options,
                const struct token_list *prompt, const struct sampling_params *sampling, int64_t max_tokens,
                bool is_chat, bool shows_reasoning, struct mx_error *err);
void answer_free(struct answer *answer);

/* Rates on stderr: one line, or the original's block. */
void answer_print_profile(const struct answer *answer, bool whole_block);

#endif
