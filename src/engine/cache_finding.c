/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/cache_finding.h"

#include "engine/sequence.h"

#include <stdio.h>

static void reason_text(struct cache_finding finding, char *text, size_t room) {
    unsigned n = finding.n_tokens;
    switch (finding.end) {
    case CACHE_NOT_ASKED:
    case CACHE_WHOLE: snprintf(text, room, "%s", ""); break;
    case CACHE_OFF: snprintf(text, room, "the cache is off"); break;
    case CACHE_ALL_NEEDED: snprintf(text, room, "every token must be computed"); break;
    case CACHE_SHORT_PROMPT: snprintf(text, room, "shorter than a page of 64 tokens and one more"); break;
    case CACHE_LONG_PROMPT: snprintf(text, room, "longer than %u tokens, positions depend on the length", n); break;
    case CACHE_EMPTY: snprintf(text, room, "nothing is kept"); break;
    case CACHE_DIFFERS: snprintf(text, room, "differs after %u tokens", n); break;
    case CACHE_DIFFERS_WITHIN: snprintf(text, room, "differs within %u tokens", n); break;
    case CACHE_EVICTED: snprintf(text, room, "evicted after %u tokens", n); break;
    case CACHE_NO_SNAPSHOT: snprintf(text, room, "known up to %u tokens, without a snapshot", n); break;
    case CACHE_NO_STATE_SLOT: snprintf(text, room, "no state slot is free"); break;
    }
}

struct cache_finding cache_finding_for_client(struct cache_finding finding) {
    if (finding.end != CACHE_DIFFERS) return finding;
    return (struct cache_finding){CACHE_DIFFERS_WITHIN, (finding.n_tokens / PAGE_CELLS + 1) * PAGE_CELLS};
}

void cache_finding_text(struct cache_finding finding, size_t n_cached, size_t n_prompt, char text[CACHE_FINDING_TEXT]) {
    char reason[64];
    reason_text(finding, reason, sizeof reason);
    if (finding.end == CACHE_NOT_ASKED)
        text[0] = '\0';
    else if (n_cached)
        snprintf(text, CACHE_FINDING_TEXT, "hit %zu of %zu%s%s", n_cached, n_prompt, *reason ? "; " : "", reason);
    else
        snprintf(text, CACHE_FINDING_TEXT, "miss: %s", reason);
}
