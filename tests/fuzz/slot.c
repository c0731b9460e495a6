/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: files of saved slots, as '/slots/ID?action=restore' reads them. */
#include "tests/fuzz/ask.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char body[] = "{\"filename\":\"slot\"}";
    fuzz_write_alone("slot", data, size);
    ask("/slots/0?action=restore", body, sizeof body - 1);
    return 0;
}
