#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Loads random checkpoints of real models' shapes and generates with them, from small to large.

    scripts/check-synthetic.py [--configs FOLDER] [--work FOLDER] [--state FILE] [--largest GB] [--minutes N] [--only TEXT]

For each folder of --configs (data/configs of the shared material) whose weights are up to --largest GB: `mlxcel synth`
writes a checkpoint in the format of its config, `mlxcel logits --greedy 16` runs it over a prompt of 8 ids, all logits
are finite, and the checkpoint is removed. Block-diffusion models run through `mlxcel generate` with a tokenizer of bytes.
Outcomes are kept in --state (CSV), and what passed there is not run again. Exit 1 when a config fails."""
import argparse
import csv
import json
import math
import os
import shutil
import subprocess
import sys
import time

PROMPT, N_TOKENS = "1,2,3,4,5,6,7,8", 16
FIELDS = ["folder", "format", "gigabytes", "seconds", "outcome"]


def weight_format(config):
    """The format of most matrices, in the words of `mlxcel synth --quant`."""
    q = config.get("quantization") or config.get("quantization_config") or {}
    if q.get("mode") in ("mxfp4", "mxfp8", "nvfp4"):
        return q["mode"]
    if q.get("quant_method") == "modelopt":
        return "nvfp4"
    if "bits" in q:
        return f"{q['bits']}bit-g{q.get('group_size', 64)}"
    return "bf16"


def is_diffusion(config):
    return config.get("model_type", "").startswith(("llada2", "diffusion"))


def write_tokenizer(folder):
    """One token for each byte, as byte-level BPE spells them."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in plain]
    vocab = {chr(b): b for b in plain} | {chr(256 + i): b for i, b in enumerate(others)}
    tokenizer = {"version": "1.0", "added_tokens": [], "normalizer": None,
                 "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True},
                 "post_processor": None, "decoder": {"type": "ByteLevel"},
                 "model": {"type": "BPE", "vocab": vocab, "merges": []}}
    with open(os.path.join(folder, "tokenizer.json"), "w", encoding="utf-8") as out:
        json.dump(tokenizer, out)


def last_line(text):
    lines = text.strip().splitlines()
    return lines[-1] if lines else "no message"


def numbers(value):
    if isinstance(value, dict):
        for one in value.values():
            yield from numbers(one)
    elif isinstance(value, list):
        for one in value:
            yield from numbers(one)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield value


def generate(tool, folder, limit, diffusion):
    """'ok', or what went wrong."""
    if diffusion:
        write_tokenizer(folder)
        command = [tool, "generate", "-m", folder, "-p", "A prompt", "--no-chat-template", "--ignore-eos", "-n",
                   str(N_TOKENS), "--max-denoising-steps", "2"]
    else:
        command = [tool, "logits", "-m", folder, "--ids", PROMPT, "--greedy", str(N_TOKENS), "--json"]
    done = subprocess.run(command, capture_output=True, timeout=limit)
    if done.returncode:
        return f"exit {done.returncode}: {last_line(done.stderr.decode(errors='replace'))}"
    if diffusion:
        return "ok"
    answer = json.loads(done.stdout)
    ids = answer.get("greedy_ids")
    if not isinstance(ids, list) or len(ids) != N_TOKENS:
        return f"no {N_TOKENS} tokens: {str(ids)[:80]}"
    return "ok" if all(math.isfinite(n) for n in numbers(answer)) else "logits that are not finite"


def run(tool, folder, work, limit):
    """(format, size in GB, outcome)."""
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as text:
        config = json.load(text)
    fmt, size = weight_format(config), 0
    shutil.rmtree(work, ignore_errors=True)
    try:
        done = subprocess.run([tool, "synth", "--config", folder, "--quant", fmt, "-o", work], capture_output=True,
                              text=True, timeout=limit)
        if done.returncode:
            return fmt, 0, "synth: " + last_line(done.stderr)
        size = os.path.getsize(os.path.join(work, "model.safetensors")) / 1e9
        return fmt, size, generate(tool, work, limit, is_diffusion(config))
    except subprocess.TimeoutExpired:
        return fmt, size, f"not done after {limit} s"
    finally:
        shutil.rmtree(work, ignore_errors=True)


def read_state(path):
    if not os.path.exists(path):
        return {}
    with open(path, encoding="utf-8", newline="") as lines:
        return {row["folder"]: row for row in csv.DictReader(lines)}


def write_state(path, state):
    with open(path + ".new", "w", encoding="utf-8", newline="") as out:
        writer = csv.DictWriter(out, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(state.values())
    os.replace(path + ".new", path)


def main():
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", default=os.path.join(here, "build/release/mlxcel"))
    parser.add_argument("--configs", default=os.path.join(here, "../shared/data/configs"))
    parser.add_argument("--work", default="synthetic-checkpoint", help="scratch folder, removed after each")
    parser.add_argument("--state", default=os.path.join(here, "docs/synthetic.csv"))
    parser.add_argument("--largest", type=float, default=10, help="GB of weights")
    parser.add_argument("--minutes", type=float, default=1e9)
    parser.add_argument("--limit", type=int, default=600, help="seconds for one command")
    parser.add_argument("--only", default="", help="folders whose name holds this")
    args = parser.parse_args()
    with open(os.path.join(args.configs, "index.csv"), encoding="utf-8") as lines:
        sizes = {row["folder"]: int(row["bytes"] or 0) for row in csv.DictReader(lines) if not row["same_as"]}
    state, end, n_failed = read_state(args.state), time.monotonic() + 60 * args.minutes, 0
    for name in sorted(sizes, key=sizes.get):
        folder = os.path.join(args.configs, name)
        passed = state.get(name, {}).get("outcome") == "ok"
        if passed or args.only not in name or sizes[name] > args.largest * 1e9 or time.monotonic() > end:
            continue
        if not os.path.exists(os.path.join(folder, "config.json")):
            continue
        begin = time.monotonic()
        fmt, size, outcome = run(args.tool, folder, args.work, args.limit)
        seconds = time.monotonic() - begin
        state[name] = dict(zip(FIELDS, (name, fmt, f"{size:.2f}", f"{seconds:.0f}", outcome)))
        write_state(args.state, state)
        n_failed += outcome != "ok"
        print(f"{name} ({fmt}, {size:.2f} GB, {seconds:.0f} s): {outcome}", flush=True)
    return 1 if n_failed else 0


if __name__ == "__main__":
    sys.exit(main())
