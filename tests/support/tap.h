/* SPDX-License-Identifier: Apache-2.0 */
/* Test results as TAP lines, and where test data lies. A test program calls tap_* for each case and returns
 * tap_done() from main. */
#ifndef MLXCEL_TESTS_TAP_H
#define MLXCEL_TESTS_TAP_H

#include <stdbool.h>

/* One case. The text names it; after a failure, tap_note adds lines that explain. Returns ok. */
bool tap_ok(bool ok, const char *format, ...) __attribute__((format(printf, 2, 3)));
void tap_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
void tap_skip(const char *name, const char *reason);
/* Prints the plan; the exit status: 0 when nothing failed. */
int tap_done(void);

/* The folder of shared reference material ($MLXCEL_SHARED, else ../shared beside the project); NULL when it is absent.
 * Tests that need it skip with SHARED_ABSENT then. */
const char *shared_folder(void);
#define SHARED_ABSENT "the shared reference folder is not there"

/* A fresh temporary folder, removed with everything in it by the caller through folder_remove. */
bool folder_make_temporary(char *path, unsigned long room);
void folder_remove(const char *path);

#endif
