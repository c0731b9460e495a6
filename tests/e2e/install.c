/* SPDX-License-Identifier: Apache-2.0 */
/* What `make install` puts down can be used from where it lies: pkg-config finds the library under any prefix, the example
 * builds against the shared and the static one and answers with the installed model, and the installed program needs no
 * option to find that model. */
#include "tests/support/process.h"
#include "tests/support/tap.h"

#include "base/file.h"

#include <stdio.h>
#include <string.h>

enum { TIMEOUT_MS = 240000 };

/* A shell command with $1 = the prefix; true when it ends well and has printed something. */
static bool run_shell(const char *name, const char *prefix, const char *command) {
    struct process p;
    const char *argv[] = {"/bin/sh", "-c", command, "sh", prefix, NULL};
    bool ok = process_run(&p, argv, TIMEOUT_MS) && p.status == 0 && p.out.length;
    if (!tap_ok(ok, "%s", name)) tap_note("%d %.500s", p.status, p.err.data ? p.err.data : "");
    process_free(&p);
    return ok;
}

int main(void) {
    char prefix[256];
    if (!file_exists(BUILD_DIR "/libmlxcel.a") || !file_exists("/usr/bin/pkg-config")) {
        tap_skip("installed_library", "no static library in this build, or no pkg-config");
        return tap_done();
    }
    if (!tap_ok(folder_make_temporary(prefix, sizeof prefix), "a temporary folder")) return tap_done();
    if (run_shell("installs_under_a_prefix", prefix, "cmake --install '" BUILD_DIR "' --prefix \"$1\"")) {
        run_shell("the_shared_library_is_found_and_works", prefix,
                  "export PKG_CONFIG_PATH=\"$(dirname \"$(find \"$1\" -name mlxcel.pc)\")\"; "
                  "export LD_LIBRARY_PATH=\"${PKG_CONFIG_PATH%/*}\"; cc '" SOURCE_DIR
                  "/examples/generate.c' $(pkg-config --cflags --libs mlxcel) -o \"$1/shared\" && "
                  "\"$1/shared\" \"$1/share/mlxcel/models/novels-24m-4bit\" Hello");
        run_shell("the_static_library_is_found_and_works", prefix,
                  "export PKG_CONFIG_PATH=\"$(dirname \"$(find \"$1\" -name mlxcel.pc)\")\"; cc -static '" SOURCE_DIR
                  "/examples/generate.c' $(pkg-config --cflags --libs --static mlxcel) -o \"$1/static\" && "
                  "\"$1/static\" \"$1/share/mlxcel/models/novels-24m-4bit\" Hello");
        run_shell(
            "the_installed_program_finds_its_model", prefix,
            "unset MLXCEL_MODEL; cd / && \"$1/bin/mlxcel\" inspect --json && \"$1/bin/mlxcel-bench-decode\" --version");
        run_shell("pages_and_completions_lie_where_they_are_looked_for", prefix,
                  "cd \"$1/share\" && ls -L man/man1/mlxcel.1 man/man1/mlxcel-generate.1 man/man1/mlxcel-server.1 "
                  "bash-completion/completions/mlxcel bash-completion/completions/mlxcel-server "
                  "zsh/site-functions/_mlxcel fish/vendor_completions.d/mlxcel.fish "
                  "fish/vendor_completions.d/mlxcel-server.fish");
        run_shell("the_service_starts_the_installed_program", prefix,
                  "test -x \"$1/bin/mlxcel-server\" && grep -F \"ExecStart=$1/bin/mlxcel-server \" "
                  "\"$1/lib/systemd/system/mlxcel-server.service\"");
    }
    folder_remove(prefix);
    return tap_done();
}
