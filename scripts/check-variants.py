#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Varies the configs of golden cases key by key, and compares mlxcel's logits with transformers' each time.

    scripts/check-variants.py [--cases ../shared/golden/hf] [--only TEXT] [--tool build/release/mlxcel] [--minutes N] [-v]

For each case in Hugging Face layout: every boolean is flipped, numbers are changed, activations exchanged, one at a time.
A variant that transformers cannot build does not count. "differs": mlxcel ran it and computed something else, a fault of
one of the two; "refused": it named a key that it does not support, or a shape. One line each, a summary, exit 1 when
something differs. Needs what golden-from-transformers.py needs."""
import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time

import numpy as np
import torch
import transformers

import golden_case

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
spec = importlib.util.spec_from_file_location("reference", os.path.join(HERE, "scripts/golden-from-transformers.py"))
reference = importlib.util.module_from_spec(spec)
spec.loader.exec_module(reference)

# Keys without effect on the logits, or that only change sizes which the prompt depends on.
PLAIN = {"use_cache", "initializer_range", "transformers_version", "model_type", "dtype", "torch_dtype", "vocab_size",
         "architectures", "output_attentions", "output_hidden_states", "use_mamba_kernels", "mamba_expand",
         "max_position_embeddings", "attention_dropout", "hidden_dropout", "output_router_logits",
         "router_aux_loss_coef", "is_encoder_decoder", "rescale_prenorm_residual"}
COUNTED = ("num_", "n_", "moe_", "mamba_", "linear_", "conv", "index_", "qk_", "v_", "kv_", "q_")
CHOICES = {"hidden_act": ["silu", "gelu", "gelu_pytorch_tanh", "relu"], "num_key_value_heads": [1, 2, 4],
           "rope_type": ["default", "linear", "dynamic", "yarn", "llama3"], "head_dim": [8, 32],
           "n_group": [1, 2, 4], "topk_group": [1, 2], "sliding_window": [3, 9, 100],
           "first_k_dense_replace": [0, 1, 2], "num_experts_per_tok": [1, 2, 3], "mamba_n_groups": [1, 2, 4],
           "n_groups": [1, 2, 4], "tie_word_embeddings": [True, False]}


def places(value, path=()):
    """(path, value) of every leaf of a config."""
    for key, item in value.items():
        if isinstance(item, dict):
            yield from places(item, path + (key,))
        else:
            yield path + (key,), item


def alternatives(key, value):
    if key in PLAIN or key.endswith(("_token_id", "dropout", "_token_index")):
        return
    if key in CHOICES:
        yield from (one for one in CHOICES[key] if one != value)
    elif isinstance(value, bool):
        yield not value
    elif isinstance(value, float) and value:
        yield value * (10000 if "eps" in key else 1.5)
    elif isinstance(value, int) and key.startswith(COUNTED):
        yield value * 2
        if value > 1:
            yield value // 2


def changed(config, path, value):
    copy = json.loads(json.dumps(config))
    at = copy
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    if path[-1] == "rope_type" and value != "default":
        at.update({"factor": 2.0, "original_max_position_embeddings": 16})
        if value == "llama3":
            at.update({"low_freq_factor": 1.0, "high_freq_factor": 4.0})
    return copy


@torch.no_grad()
def expected(config, folder):
    """The reference's logits, with the checkpoint left in the folder; None where it cannot be built."""
    golden_case.save_json(os.path.join(folder, "config.json"), config)
    try:
        parsed = transformers.AutoConfig.from_pretrained(folder)
        auto = reference.model_class(parsed)
        with tempfile.TemporaryDirectory() as work:
            auto.from_config(parsed, dtype=torch.float32, attn_implementation="eager").save_pretrained(work)
            shapes = reference.tensor_shapes(work)
        tied = not any("head" in name or "embed_out" in name for name in shapes)
        entries = [golden_case.describe(name, shape, tied) for name, shape in sorted(shapes.items())]
        golden_case.save_safetensors(os.path.join(folder, "model.safetensors"), golden_case.arrays_of(entries, 1),
                                     {"format": "pt"})
        model = auto.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
        prompt = [int(n) for n in np.random.default_rng(1).integers(5, 140, golden_case.N_PROMPT)]
        return prompt, model(input_ids=torch.tensor([prompt])).logits[0].numpy()
    except (SystemExit, Exception):  # pylint: disable=broad-except
        return None, None


def compare(tool, folder, prompt, logits):
    done = subprocess.run([tool, "logits", "-m", folder, "--ids", ",".join(map(str, prompt)), "--all", "--precision",
                           "exact", "--threads", "1", "--json"], capture_output=True, text=True, timeout=60)
    if done.returncode:
        return "refused", (done.stderr.strip().splitlines() or ["no message"])[-1].replace(folder, "")
    ours = np.array(json.loads(done.stdout)["logits"], np.float32)
    if ours.shape != logits.shape:
        return "differs", f"shape {ours.shape}, expected {logits.shape}"
    largest, far = float(np.abs(logits).max()), float(np.abs(ours - logits).max())
    return ("ok" if far <= 1e-3 + 1e-4 * largest else "differs"), f"by {far:.3g} of {largest:.3g}"


def run_case(args, name, counts, end):
    with open(os.path.join(args.cases, name, "config.json"), encoding="utf-8") as text:
        config = json.load(text)
    if "quantization_config" in config or "__float__" in json.dumps(config):
        config.pop("quantization_config", None)
        config = {key: value for key, value in config.items() if "__float__" not in json.dumps(value)}
    variants = [((), None)] + [(path, one) for path, value in places(config)
                               for one in alternatives(path[-1], value)]
    for path, value in variants:
        if time.monotonic() > end:
            return
        with tempfile.TemporaryDirectory() as folder:
            variant = changed(config, path, value) if path else config
            prompt, logits = expected(variant, folder)
            verdict, detail = ("no reference", "") if prompt is None else compare(args.tool, folder, prompt, logits)
        counts[verdict] = counts.get(verdict, 0) + 1
        if verdict in ("differs", "refused") or args.v:
            print(f"{verdict:<12} {name} {'.'.join(path)}={value}: {detail}", flush=True)
        if not path and verdict != "ok":
            return


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default=os.path.join(HERE, "../shared/golden/hf"))
    parser.add_argument("--tool", default=os.path.join(HERE, "build/release/mlxcel"))
    parser.add_argument("--only", default="")
    parser.add_argument("--minutes", type=float, default=1e9)
    parser.add_argument("-v", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity(50)
    transformers.utils.logging.disable_progress_bar()
    counts, end = {}, time.monotonic() + 60 * args.minutes
    for name in sorted(os.listdir(args.cases)):
        if args.only in name and "diffusion" not in name and os.path.exists(os.path.join(args.cases, name, "config.json")):
            run_case(args, name, counts, end)
    print(", ".join(f"{n} {verdict}" for verdict, n in sorted(counts.items())))
    return 1 if counts.get("differs") else 0


if __name__ == "__main__":
    sys.exit(main())
