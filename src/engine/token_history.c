/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/token_history.h"

#include "base/memory.h"

#include <string.h>

static bool has_windows(const struct token_history *h) {
    for (int w = 0; w < N_WINDOWS; w++)
        if (h->windows[w]) return true;
    return false;
}

bool token_history_init(struct token_history *h) {
    for (int w = 0; w < N_WINDOWS; w++)
        if (h->windows[w] > h->keep) h->keep = h->windows[w];
    if (!has_windows(h)) return true;
    h->entry_of = array_calloc(h->vocab_size, sizeof *h->entry_of);
    return h->entry_of != NULL;
}

void token_history_free(struct token_history *h) {
    free(h->tokens);
    free(h->entry_of);
    free(h->counts);
    memset(h, 0, sizeof *h);
}

/* Twice `keep` tokens are held before the older half is dropped, so that dropping costs little for each token. */
static size_t most_tokens(const struct token_history *h) {
    return h->keep > SIZE_MAX / 4 ? SIZE_MAX / 4 : (size_t)h->keep * 2;
}

bool token_history_reserve(struct token_history *h, size_t n) {
    size_t want, most = most_tokens(h);
    if (!size_add(h->n, n, &want) || want > most) want = most;
    if (!array_reserve(&h->tokens, &h->capacity, want, sizeof *h->tokens)) return false;
    if (!h->entry_of) return true;
    if (!size_add(h->n_counts, n, &want) || want > h->vocab_size) want = h->vocab_size;
    /* One more: a token enters before another leaves. */
    if (h->keep < want) want = (size_t)h->keep + 1;
    return array_reserve(&h->counts, &h->counts_capacity, want, sizeof *h->counts);
}

static struct token_count *entry_make(struct token_history *h, uint32_t token) {
    if (h->entry_of[token]) return &h->counts[h->entry_of[token] - 1];
    if (!array_reserve(&h->counts, &h->counts_capacity, h->n_counts + 1, sizeof *h->counts)) return NULL;
    struct token_count *entry = &h->counts[h->n_counts++];
    *entry = (struct token_count){.token = token};
    h->entry_of[token] = (uint32_t)h->n_counts;
    return entry;
}

/* Takes the token out of window w; an entry without counts gives its place to the last one. */
static void leave_window(struct token_history *h, uint32_t token, int w) {
    struct token_count *entry = &h->counts[h->entry_of[token] - 1];
    entry->n[w]--;
    for (int i = 0; i < N_WINDOWS; i++)
        if (entry->n[i]) return;
    struct token_count *last = &h->counts[--h->n_counts];
    h->entry_of[last->token] = h->entry_of[token];
    *entry = *last;
    h->entry_of[token] = 0;
}

/* Makes room for one token at the end of the list. */
static bool list_room(struct token_history *h) {
    if (h->n < h->capacity && h->n < most_tokens(h)) return true;
    if (h->n < most_tokens(h)) return array_reserve(&h->tokens, &h->capacity, h->n + 1, sizeof *h->tokens);
    size_t keep = (size_t)h->keep;
    memmove(h->tokens, h->tokens + h->n - keep, keep * sizeof *h->tokens);
    h->n = keep;
    return true;
}

static bool count_token(struct token_history *h, uint32_t token, bool is_prompt) {
    struct token_count *entry = entry_make(h, token);
    if (!entry) return false;
    for (int w = 0; w < N_WINDOWS; w++) {
        if (!h->windows[w] || (is_prompt && h->skips_prompt[w])) continue;
        h->counts[h->entry_of[token] - 1].n[w]++;
        uint64_t counted = h->skips_prompt[w] ? h->position - h->prompt_end : h->position;
        if (counted >= h->windows[w]) leave_window(h, h->tokens[h->n - (size_t)h->windows[w]], w);
    }
    return true;
}

bool token_history_push(struct token_history *h, uint32_t token, bool is_prompt) {
    if (h->keep) {
        if (!list_room(h)) return false;
        bool is_counted = false;
        for (int w = 0; w < N_WINDOWS; w++) is_counted |= h->windows[w] && !(is_prompt && h->skips_prompt[w]);
        if (is_counted && !count_token(h, token, is_prompt)) return false;
        h->tokens[h->n++] = token;
    }
    h->position++;
    if (is_prompt) h->prompt_end = h->position;
    return true;
}

static void *copy_of(const void *data, size_t n, size_t size) {
    void *copy = array_alloc(n, size);
    if (copy && n) memcpy(copy, data, n * size);
    return copy;
}

bool token_history_copy(struct token_history *copy, const struct token_history *h) {
    *copy = *h;
    copy->tokens = array_alloc(h->capacity, sizeof *h->tokens);
    copy->counts = array_alloc(h->counts_capacity, sizeof *h->counts);
    copy->entry_of = h->entry_of ? copy_of(h->entry_of, h->vocab_size, sizeof *h->entry_of) : NULL;
    if (!copy->tokens || !copy->counts || (h->entry_of && !copy->entry_of)) {
        token_history_free(copy);
        return false;
    }
    if (h->n) memcpy(copy->tokens, h->tokens, h->n * sizeof *h->tokens);
    if (h->n_counts) memcpy(copy->counts, h->counts, h->n_counts * sizeof *h->counts);
    return true;
}
