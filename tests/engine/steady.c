/* SPDX-License-Identifier: Apache-2.0 */
/* Steady state: once warm, decode steps allocate nothing in any thread, for every family and in both precisions. The C
 * library's allocator is wrapped for the whole program; a deliberate malloc in a step is seen. */
#include "engine/engine.h"
#include "tests/support/tap.h"
#include "tests/support/weights.h"

#include <malloc.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_SANITIZED 1
#else
#define IS_SANITIZED 0

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *memory, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);
extern void __libc_free(void *memory);
#endif

static atomic_ulong n_calls;
static atomic_bool is_counting;

#if !IS_SANITIZED
static void count(void) {
    if (atomic_load(&is_counting)) atomic_fetch_add(&n_calls, 1);
}
void *malloc(size_t size) {
    count();
    return __libc_malloc(size);
}
void *calloc(size_t n, size_t size) {
    count();
    return __libc_calloc(n, size);
}
void *realloc(void *memory, size_t size) {
    count();
    return __libc_realloc(memory, size);
}
void *aligned_alloc(size_t alignment, size_t size) {
    count();
    return __libc_memalign(alignment, size);
}
void free(void *memory) {
    if (memory) count();
    __libc_free(memory);
}
#endif

enum { N_WARM = 12, N_STEPS = 100, N_SEQUENCES = 3 };

static bool misbehaves; /* the callback allocates */

static enum verdict on_event(void *context, const struct engine_event *event) {
    unsigned *n_finished = context;
    if (event->kind == EVENT_FINISHED) ++*n_finished;
    if (event->kind == EVENT_TOKEN && misbehaves) free(malloc(100));
    return VERDICT_GO_ON;
}

/* Heap calls in N_STEPS decode steps of three sequences; -1 when something failed. */
static long heap_calls(const char *folder, enum precision precision, struct mx_error *err) {
    struct model model;
    struct model_options m = {.precision = precision,
                              .tier = -1,
                              .n_threads = 2,
                              .max_sequences = N_SEQUENCES,
                              .max_cells = 256,
                              .max_rows = 64};
    struct engine_options e = {0};
    unsigned n_finished = 0;
    long result = -1;
    if (!model_open(&model, folder, &m, err)) return -1;
    struct engine *engine = engine_create(&model, &e, err);
    bool ok = engine != NULL;
    for (int i = 0; i < N_SEQUENCES && ok; i++) {
        uint32_t prompt[] = {1, 2, 3, 4, 5, (uint32_t)i};
        uint64_t id;
        struct engine_request r = {.prompt = prompt,
                                   .n_prompt = 6,
                                   .max_tokens = N_WARM + N_STEPS + 20,
                                   .sampling = sampling_defaults(),
                                   .on_event = on_event,
                                   .context = &n_finished};
        r.sampling.ignore_eos = true;
        r.sampling.temperature = i ? 0.8 : 0;
        r.sampling.repetition_penalty = 1.1;
        r.sampling.top_k = 20;
        r.sampling.top_p = 0.9;
        ok = engine_submit(engine, &r, &id, err);
    }
    for (int i = 0; i < N_WARM && ok; i++) engine_step(engine);
    atomic_store(&n_calls, 0);
    atomic_store(&is_counting, true);
    for (int i = 0; i < N_STEPS && ok; i++) ok = engine_step(engine);
    atomic_store(&is_counting, false);
    if (ok && !n_finished) result = (long)atomic_load(&n_calls);
    engine_destroy(engine);
    model_close(&model);
    return result;
}

int main(void) {
    static const char *const cases[] = {"llama-q4",           "llama-bf16",     "llama-mxfp8", "gemma3-text-q4",
                                        "mixtral-q4",         "mamba2-q4",      "qwen3-q4",    "qwen3_next-q4",
                                        "hf-llama-fp8-tied",  "kimi_linear-q4", "gemma3n-q4",  "rwkv7-q4",
                                        "recurrent_gemma-q4", "jamba-q4"};
    if (IS_SANITIZED) {
        tap_skip("decode steps allocate nothing", "the sanitizer has the allocator");
        return tap_done();
    }
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char source[4096], folder[4096];
        struct mx_error err = {0};
        snprintf(source, sizeof source, "%s/tests/golden/cases/%s", SOURCE_DIR, cases[i]);
        bool ok = folder_make_temporary(folder, sizeof folder) && weights_generate(source, "config.json", folder, &err);
        for (int p = 0; p < 2 && ok; p++) {
            long n = heap_calls(folder, p ? PRECISION_EXACT : PRECISION_FAST, &err);
            if (!tap_ok(n == 0, "%s, %s: 100 decode steps make no heap call", cases[i], p ? "exact" : "fast"))
                tap_note("%ld calls %s", n, err.message);
        }
        misbehaves = true;
        if (ok && i == 0) tap_ok(heap_calls(folder, PRECISION_FAST, &err) > 0, "a deliberate malloc in a step is seen");
        misbehaves = false;
        if (!ok) tap_ok(false, "%s: %s", cases[i], err.message);
        folder_remove(folder);
    }
    return tap_done();
}
