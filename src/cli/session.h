/* SPDX-License-Identifier: Apache-2.0 */
/* What a command that talks to a model needs: model, tokenizer, chat template, engine. */
#ifndef MLXCEL_CLI_SESSION_H
#define MLXCEL_CLI_SESSION_H

#include "cli/load.h"
#include "cli/template.h"
#include "engine/engine.h"
#include "text/chat_template.h"
#include "text/token_mask.h"
#include "text/tokenizer.h"

struct session {
    char path[4096];
    struct tokenizer *tokenizer;
    struct chat_template *chat;
    const char *template_name; /* the one that --chat-template names, or NULL */
    struct model model;
    struct engine *engine;
    struct token_trie *trie; /* of the tokenizer, once a grammar was asked for */
    bool keeps;              /* each request goes on from the cells of the last one, where it can */
    uint32_t context_length; /* of the config, before the model is open */
};

/* Tokenizer, template and context length; no weights yet. */
bool session_open_text(struct session *session, const struct options *options, struct mx_error *err);
/* Opens the model for one sequence of max_cells cells (0 = the context), with a prefix cache or not. */
bool session_open_model(struct session *session, const struct options *options, uint32_t max_cells, bool with_cache,
                        struct mx_error *err);
void session_close(struct session *session);

/* Renders messages (a JSON array) with the chat template and encodes the result; a BOS is added for the fallback
 * template alone, since a real one writes its own. */
bool session_encode_chat(const struct session *session, const struct options *options, const struct json *messages,
                         struct token_list *tokens, struct mx_error *err);
/* One user message where the model has a chat template (and --no-chat-template is not given), else the text as it is,
 * with BOS and the like. */
bool session_encode_prompt(const struct session *session, const struct options *options, const char *prompt,
                           struct token_list *tokens, struct mx_error *err);

/* Sampling options of the command line. The biases are malloc'ed: free(params->logit_bias). */
bool session_sampling(const struct options *options, struct sampling_params *params, struct mx_error *err);

/* What the command line says over what *params holds. */
bool session_override_sampling(const struct options *options, struct sampling_params *params, struct mx_error *err);

/* Prints the memory estimate on stderr where asked for, and refuses what does not fit unless forced. */
bool session_check_memory(const struct session *session, const struct options *options, uint32_t max_cells,
                          struct mx_error *err);

/* Set by Ctrl-C once session_catch_interrupts was called; the n-th Ctrl-C that nobody cleared ends the program at once. */
void session_catch_interrupts(int n_until_exit);
void session_catch_interrupt(void); /* n is 2 */
bool session_was_interrupted(void);
void session_clear_interrupt(void);

#endif
