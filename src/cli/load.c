/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/load.h"

#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/pool.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BUNDLED "novels-24m-4bit"

/* models/ beside the program's build tree, beside the source, or in the installed share folder. */
bool model_bundled_path(char *path, size_t room) {
    char program[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    if (n > 0) {
        program[n] = '\0';
        char *slash = strrchr(program, '/');
        if (slash) *slash = '\0';
        static const char *const relative[] = {"../../models/" BUNDLED, "../share/mlxcel/models/" BUNDLED};
        for (size_t i = 0; i < 2; i++) {
            snprintf(path, room, "%s/%s", program, relative[i]);
            if (file_is_directory(path)) return true;
        }
    }
    snprintf(path, room, "%s/models/%s", MLXCEL_DATA_DIR, BUNDLED);
    return file_is_directory(path);
}

static bool ends_with(const char *text, const char *end) {
    size_t n = strlen(text), m = strlen(end);
    return n >= m && !strcmp(text + n - m, end);
}

/* A folder that can be looked into; inspect also takes a config file. */
static bool check_folder(enum command command, const char *path, struct mx_error *err) {
    struct stat status;
    if (!*path) return error_set(err, ERROR_USAGE, "--model: the folder's name is empty");
    if (stat(path, &status) != 0) return error_set(err, ERROR_IO, "%s: %s", path, strerror(errno));
    if (S_ISDIR(status.st_mode))
        return access(path, R_OK | X_OK) == 0 || error_set(err, ERROR_IO, "%s: %s", path, strerror(errno));
    if (ends_with(path, ".gguf"))
        return error_set(err, ERROR_FORMAT, "%s: is a GGUF file, expected a folder with config.json and *.safetensors",
                         path);
    return command == COMMAND_INSPECT ||
           error_set(err, ERROR_IO, "%s: is a file, expected a folder with config.json and *.safetensors", path);
}

bool load_model_path(const struct options *options, char *path, size_t room, struct mx_error *err) {
    const char *given = options_text(options, OPT_MODEL);
    if (given) {
        if (strlen(given) >= room) return error_set(err, ERROR_USAGE, "--model: the path is too long");
        snprintf(path, room, "%s", given);
        return check_folder(options->command, path, err);
    }
    return model_bundled_path(path, room) ||
           error_set(err, ERROR_USAGE, "no model is named (-m DIR) and the bundled model is not where it should be");
}

bool load_model_options(const struct options *options, struct model_options *m, struct mx_error *err) {
    m->tier = -1;
    const char *tier = options_text(options, OPT_TIER), *precision = options_text(options, OPT_PRECISION);
    enum kernel_tier chosen;
    if (tier) {
        if (!kernel_tier_from_name(tier, &chosen) || !kernels_for_tier(chosen))
            return error_set(err, ERROR_USAGE, "--tier: '%s' is not available on this processor", tier);
        m->tier = (int)chosen;
    }
    m->precision = precision && !strcmp(precision, "exact") ? PRECISION_EXACT : PRECISION_FAST;
    m->n_threads = (int)options_integer(options, OPT_THREADS);
    int most = pool_default_threads();
    if (m->n_threads > most) {
        log_line(LOG_INFO, "--threads: %d threads run here at the same time; so many are started, not %d", most,
                 m->n_threads);
        m->n_threads = most;
    }
    const char *off = options_text(options, OPT_NO_FUSION);
    while (off && *off) {
        size_t n = strcspn(off, ",");
        unsigned fusion = 0;
        if (n == 3 && !memcmp(off, "all", 3))
            fusion = FUSE_ALL;
        else if (!fusion_from_name(off, n, &fusion))
            return error_set(err, ERROR_USAGE,
                             "--no-fusion: '%.*s' is no fusion (parts, gated, residual, norm, heads, all)", (int)n,
                             off);
        m->disabled_fusions |= fusion;
        off += n + (off[n] == ',');
    }
    return true;
}

bool parse_ids(const char *text, const char *option, uint32_t **ids, size_t *n, struct mx_error *err) {
    size_t capacity = 0;
    *ids = NULL;
    *n = 0;
    while (*text) {
        if (isspace((unsigned char)*text) || *text == ',' || *text == '[' || *text == ']') {
            text++;
            continue;
        }
        char *end;
        errno = 0;
        unsigned long long id = strtoull(text, &end, 10);
        if (end == text || errno || id > INT32_MAX || !isdigit((unsigned char)*text)) {
            free(*ids);
            *ids = NULL;
            return error_set(err, ERROR_USAGE, "%s: '%.20s' is no token id", option, text);
        }
        if (!array_reserve(ids, &capacity, *n + 1, sizeof **ids)) {
            free(*ids);
            *ids = NULL;
            return error_memory(err, option);
        }
        (*ids)[(*n)++] = (uint32_t)id;
        text = end;
    }
    return true;
}

struct diffusion_options load_diffusion_options(const struct options *options) {
    struct diffusion_options d = {.is_full_canvas = options_flag(options, OPT_DIFFUSION_FULL)};
    if (options_is_set(options, OPT_MAX_DENOISING_STEPS))
        d.max_steps = (uint32_t)options_integer(options, OPT_MAX_DENOISING_STEPS);
    if (options_is_set(options, OPT_DIFFUSION_SAMPLER))
        d.by_confidence = !strcmp(options_text(options, OPT_DIFFUSION_SAMPLER), "confidence-threshold");
    if (options_is_set(options, OPT_DIFFUSION_THRESHOLD)) d.threshold = options_real(options, OPT_DIFFUSION_THRESHOLD);
    if (options_is_set(options, OPT_DIFFUSION_MIN))
        d.min_canvas = (uint32_t)options_integer(options, OPT_DIFFUSION_MIN);
    if (options_is_set(options, OPT_DIFFUSION_MAX))
        d.max_canvas = (uint32_t)options_integer(options, OPT_DIFFUSION_MAX);
    return d;
}
