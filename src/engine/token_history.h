/* SPDX-License-Identifier: Apache-2.0 */
/* The tokens of one sequence as far as sampling looks back, and how often each occurs in sliding windows.
 *
 * Only the last `keep` tokens are held (all of them when a window is unbounded). Three windows count tokens, for the
 * repetition, presence and frequency penalty; a token with a count in any of them has one entry, found through a table
 * indexed by token. Nothing is counted, and no table made, when all windows are off. */
#ifndef MLXCEL_ENGINE_TOKEN_HISTORY_H
#define MLXCEL_ENGINE_TOKEN_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WINDOW_REPETITION, WINDOW_PRESENCE, WINDOW_FREQUENCY, N_WINDOWS };

#define HISTORY_ALL UINT64_MAX /* a window without bound */

struct token_count {
    uint32_t token;
    uint32_t n[N_WINDOWS];
};

struct token_history {
    uint64_t windows[N_WINDOWS]; /* tokens; 0 = off, HISTORY_ALL */
    bool skips_prompt[N_WINDOWS];
    uint64_t keep; /* tokens that must stay readable */
    uint32_t vocab_size;
    uint64_t position;   /* tokens seen */
    uint64_t prompt_end; /* tokens of the prompt among them */
    uint32_t *tokens;    /* the last n, oldest first */
    size_t n, capacity;
    uint32_t *entry_of; /* [vocab_size] index into counts, plus 1; 0 = none. NULL when no window is on */
    struct token_count *counts;
    size_t n_counts, counts_capacity;
};

/* The windows, skips_prompt, keep and vocab_size are set by the caller in a zeroed struct. keep is raised to the
 * longest window. False when memory is out. */
bool token_history_init(struct token_history *history);
void token_history_free(struct token_history *history);
/* Memory for n more tokens. */
bool token_history_reserve(struct token_history *history, size_t n);
/* Adds a token, which is below vocab_size. False when memory is out; never after a reserve that covers it. */
bool token_history_push(struct token_history *history, uint32_t token, bool is_prompt);
bool token_history_copy(struct token_history *copy, const struct token_history *history);

#endif
