/* SPDX-License-Identifier: Apache-2.0 */
/* Why the prefix cache gave as much of a prompt as it did, for the people who wonder about a miss. */
#ifndef MLXCEL_ENGINE_CACHE_FINDING_H
#define MLXCEL_ENGINE_CACHE_FINDING_H

#include <stddef.h>
#include <stdint.h>

/* What ended the known beginning of a prompt. */
enum cache_end {
    CACHE_NOT_ASKED,      /* the request did not come so far */
    CACHE_WHOLE,          /* nothing more is known that could have helped: all but the last token, or all full pages */
    CACHE_OFF,            /* there is no cache */
    CACHE_ALL_NEEDED,     /* the request wants something of every token */
    CACHE_SHORT_PROMPT,   /* only full pages are kept; this is none and a token to compute, and no page begins so */
    CACHE_LONG_PROMPT,    /* longer than n_tokens, from where on positions depend on the length */
    CACHE_EMPTY,          /* nothing is kept yet */
    CACHE_DIFFERS,        /* what is kept agrees in the first n_tokens */
    CACHE_DIFFERS_WITHIN, /* likewise, somewhere in the page that ends with n_tokens */
    CACHE_EVICTED,        /* what followed n_tokens made room for something else */
    CACHE_NO_SNAPSHOT,    /* n_tokens are known, but the model's state was not kept in a place after what was found */
    CACHE_NO_STATE_SLOT,  /* no sequence could be begun from the snapshot */
};

struct cache_finding {
    enum cache_end end;
    uint32_t n_tokens;
};

enum { CACHE_FINDING_TEXT = 96 };

/* What a client may know of a cache that it shares with others, whose hits end at whole pages. The exact token would let
 * it guess their prompts token by token. */
struct cache_finding cache_finding_for_client(struct cache_finding finding);

/* "hit 64 of 65", "hit 64 of 300; differs after 70 tokens", "miss: evicted after 0 tokens"; "" where it was not asked. */
void cache_finding_text(struct cache_finding finding, size_t n_cached, size_t n_prompt, char text[CACHE_FINDING_TEXT]);

#endif
