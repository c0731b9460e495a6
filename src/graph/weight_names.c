/* SPDX-License-Identifier: Apache-2.0 */
/* Names of tensors: scopes, alternatives, and the wrappers of multimodal checkpoints. */
#include "graph/weights_internal.h"

#include <stdio.h>
#include <string.h>

/* How multimodal checkpoints wrap the names of their text part: a leading "model." is replaced by `replacement`, any
 * other name gets `prefix` in front. */
static const struct {
    const char *replacement, *prefix;
} wrappers[] = {
    {"model.", ""},
    {"language_model.model.", "language_model."},
    {"model.language_model.", ""},
    {"model.language_model.", "language_model."},
    {"language_model.", "language_model."},
    {"model.text_model.", ""},
    {"transformer.", ""},
    {"model.decoder.", ""},
    {"thinker.model.", "thinker."},
    {"thinker.language_model.model.", "thinker.language_model."},
    {"text.model.", "text."},
    {"", ""},
};
enum { N_WRAPPERS = sizeof wrappers / sizeof *wrappers };

bool weight_name_wrapped(int wrapper, const char *name, char *out) {
    if (wrapper >= N_WRAPPERS) return false;
    if (!strncmp(name, "model.", 6))
        snprintf(out, MAX_NAME, "%s%s", wrappers[wrapper].replacement, name + 6);
    else
        snprintf(out, MAX_NAME, "%s%s", wrappers[wrapper].prefix, name);
    return true;
}

const struct tensor *weight_find_wrapped(struct weights *w, const char *name) {
    char wrapped[MAX_NAME];
    for (int i = 0; i < N_WRAPPERS; i++) {
        int wrapper = (w->wrapper + i) % N_WRAPPERS;
        weight_name_wrapped(wrapper, name, wrapped);
        const struct tensor *tensor = checkpoint_find(w->checkpoint, wrapped);
        if (!tensor) continue;
        w->wrapper = wrapper;
        return tensor;
    }
    return NULL;
}

/* scope + "." + alternative number `index` + suffix; false when there are fewer alternatives. "" as scope adds nothing;
 * an alternative that begins with '/' is a full name. */
bool weight_full_name(const char *scope, const char *names, int index, const char *suffix, char *out) {
    for (; index > 0; index--) {
        names = strchr(names, '|');
        if (!names) return false;
        names++;
    }
    int n = (int)strcspn(names, "|");
    if (*names == '/')
        snprintf(out, MAX_NAME, "%.*s%s", n - 1, names + 1, suffix);
    else
        snprintf(out, MAX_NAME, "%s%s%.*s%s", scope, *scope ? "." : "", n, names, suffix);
    return true;
}

const struct tensor *weights_find(struct weights *w, const char *scope, const char *names) {
    char name[MAX_NAME];
    if (!w->checkpoint) return NULL;
    for (int i = 0; weight_full_name(scope, names, i, "", name); i++) {
        const struct tensor *tensor = weight_find_wrapped(w, name);
        if (tensor) return tensor;
    }
    return NULL;
}

bool weights_has(struct weights *w, const char *scope, const char *names, bool fallback) {
    char name[MAX_NAME];
    if (!w->checkpoint) return fallback;
    if (weights_find(w, scope, names)) return true;
    /* "X.weight" is there in another form */
    for (int i = 0; w->is_awq && weight_full_name(scope, names, i, "", name); i++) {
        size_t n = strlen(name), m = strlen(".weight");
        if (n <= m || n + 8 > sizeof name || strcmp(name + n - m, ".weight") != 0) continue;
        memcpy(name + n - m, ".qweight", sizeof ".qweight");
        if (weight_find_wrapped(w, name)) return true;
    }
    return false;
}
