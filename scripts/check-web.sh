#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Drives the server's web page in a real browser (about a minute):   scripts/check-web.sh [--pictures DIR] [--only NAME]
#
# Takes Debian's chromium, installed where possible, and PyPI's playwright, in a venv under build/. Where one of them is
# out of reach it says so and counts as skipped. Prints TAP; the last line is "N passed, N failed, N skipped".
set -u
cd "$(dirname "$0")/.." || exit 2
skip() { echo "ok - the web page # SKIP $1"; echo "0 passed, 0 failed, 1 skipped"; exit 0; }

[ -x build/release/mlxcel ] || [ -n "${MLXCEL:-}" ] || { echo "check-web.sh: build/release/mlxcel is missing: build first" >&2; exit 2; }
export CHROMIUM=${CHROMIUM:-/usr/bin/chromium}
[ -x "$CHROMIUM" ] || scripts/setup.sh chromium python3-venv >&2
[ -x "$CHROMIUM" ] || skip "there is no chromium"
python=build/venv-web/bin/python
"$python" -c "import playwright" 2>/dev/null || {
    python3 -m venv build/venv-web && build/venv-web/bin/pip install -q playwright
} >&2 || skip "PyPI is out of reach"
exec "$python" tests/web/check.py "$@"
