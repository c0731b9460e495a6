#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Client libraries from PyPI against the server of a build:   scripts/check-clients.sh [BINARY [MODULE...]]
#
# Makes an environment under build/clients. MODULE names files of tests/clients; by default those of openai, anthropic and
# ollama; with_litellm and with_langchain when asked for (MLXCEL_TEST_FULL=1 or by name). Prints TAP; the last line is
# "N passed, N failed, N skipped".
set -u
cd "$(dirname "$0")/.." || exit 2
binary=${1:-build/release/mlxcel}
[ $# -gt 0 ] && shift
[ -x "$binary" ] || { echo "check-clients.sh: $binary is missing: build first" >&2; exit 2; }
venv=build/clients
packages="openai anthropic ollama jsonschema"
modules=${*:-with_openai with_anthropic with_ollama}
[ $# -eq 0 ] && [ "${MLXCEL_TEST_FULL:-}" = 1 ] && modules="$modules with_litellm with_langchain"
case $modules in *with_litellm*) packages="$packages litellm" ;; esac
case $modules in *with_langchain*) packages="$packages langchain-openai" ;; esac
[ -x $venv/bin/pip ] || python3 -m venv $venv >/dev/null 2>&1 ||
    { scripts/setup.sh python3-venv && python3 -m venv $venv; } >&2 ||
    { echo "ok - client libraries # SKIP python3-venv is not installed"; echo "0 passed, 0 failed, 1 skipped"; exit 0; }
if [ "$(cat $venv/packages 2>/dev/null)" != "$packages" ]; then
    # shellcheck disable=SC2086
    timeout 300 $venv/bin/pip install -q --disable-pip-version-check --retries 1 --timeout 10 $packages >$venv/log 2>&1 ||
        { echo "ok - client libraries # SKIP PyPI is out of reach"; echo "0 passed, 0 failed, 1 skipped"; exit 0; }
    echo "$packages" >$venv/packages
fi
# shellcheck disable=SC2086
exec $venv/bin/python tests/clients/run.py "$binary" $modules
