/* SPDX-License-Identifier: Apache-2.0 */
/* Grammars: which texts match, in what time, and which tokens a mask allows. */
#include "tests/support/tap.h"
#include "tests/text/grammar/parts.h"

#include <time.h>

enum grammar_verdict verdict_on(struct grammar *grammar, const char *text, size_t length) {
    struct matcher matcher;
    matcher_init(&matcher, grammar);
    enum grammar_verdict verdict = matcher_push(&matcher, text, length);
    matcher_free(&matcher);
    if (grammar_failure(grammar)) tap_note("gave up: %s", grammar_failure(grammar)->message);
    return verdict;
}

double processor_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
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
