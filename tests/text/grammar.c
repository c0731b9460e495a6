/* SPDX-License-Identifier: Apache-2.0 */
/* Grammars: which texts match, in what time, and which tokens a mask allows. */
#include "tests/support/tap.h"
#include "tests/text/grammar/parts.h"

enum grammar_verdict verdict_on(struct grammar *grammar, const char *text, size_t length) {
    struct matcher matcher;
    matcher_init(&matcher, grammar);
    enum grammar_verdict verdict = matcher_push(&matcher, text, length);
    matcher_free(&matcher);
    if (grammar_failure(grammar)) tap_note("gave up: %s", grammar_failure(grammar)->message);
    return verdict;
}

int main(void) {
    const char *shared = shared_folder();
    test_own_cases();
    test_limits();
    test_own_schemas();
    test_schema_limits();
    test_masks(shared);
    if (shared) {
        test_published_cases(shared);
        test_published_schemas(shared);
    } else {
        tap_skip("published cases", SHARED_ABSENT);
    }
    return tap_done();
}
