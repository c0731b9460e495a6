/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MLXCEL_TESTS_TEXT_GRAMMAR_PARTS_H
#define MLXCEL_TESTS_TEXT_GRAMMAR_PARTS_H

#include "text/grammar.h"

/* The verdict on a whole text; GRAMMAR_REJECT and a note when the grammar gave up. */
enum grammar_verdict verdict_on(struct grammar *grammar, const char *text, size_t length);

/* Time on a processor. What shares its caches and its core can more than double it, sanitizers do so many times. */
double processor_seconds(void);
#if defined(__SANITIZE_ADDRESS__)
#define SECONDS_ALLOWED 40.0
#else
#define SECONDS_ALLOWED 5.0
#endif

void test_own_cases(void);
void test_limits(void);
void test_published_cases(const char *shared);
void test_own_schemas(void);
void test_schema_limits(void);
void test_published_schemas(const char *shared);
void test_masks(const char *shared); /* shared may be NULL */

#endif
