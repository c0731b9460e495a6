#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes golden cases of text parts that the shared set lacks, with mlx-vlm's language models as the reference.

    scripts/make-text-golden.py --weights ../shared/golden/weights.py --output tests/golden/cases [NAME ...]

Needs mlx (on a CPU: `pip install mlx[cpu]`), mlx-vlm and numpy. The cases have the form of the shared set (its README.md):
a tiny config, weights by the rule of weights.py in bf16, logits of one call over the prompt and of 16 greedy steps, all in
f32. The seed is the first one whose greedy choices all have a margin of 0.02."""
import argparse
import importlib
import json
import os
import struct
import subprocess
import sys
import tempfile

import mlx.core as mx
import numpy as np
from mlx.utils import tree_flatten

# name: module of the reference, prefix of the names, top-level config, config of the text part, ids for the prompt
CASES = {
    "molmo-bf16": ("molmo", "language_model.", {"model_type": "molmo"},
                   {"model_type": "molmo", "d_model": 64, "n_heads": 4, "n_kv_heads": 2, "n_layers": 2,
                    "mlp_hidden_size": 256, "vocab_size": 128, "embedding_size": 128, "additional_vocab_size": 8,
                    "layer_norm_eps": 1e-6, "rope_theta": 10000.0, "rope_impl": "llama", "weight_tying": False,
                    "qkv_bias": True, "layer_norm_type": "rms", "max_position_embeddings": 4096}, 136),
    "molmo2-bf16": ("molmo2", "language_model.", {"model_type": "molmo2"},
                    {"model_type": "molmo2_text", "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
                     "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32, "vocab_size": 128,
                     "additional_vocab_size": 8, "layer_norm_eps": 1e-6, "rope_theta": 10000.0, "rope_scaling": None,
                     "use_qk_norm": True, "qk_norm_type": "qwen3", "qkv_bias": False, "norm_after": False,
                     "max_position_embeddings": 4096}, 136),
    "moondream2-bf16": ("moondream2", "text.", {"model_type": "moondream2"},
                        {"model_type": "moondream2", "hidden_size": 64, "intermediate_size": 128,
                         "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 4,
                         "vocab_size": 128, "rope_theta": 10000.0, "partial_rotary_factor": 0.5,
                         "layer_norm_eps": 1e-5, "hidden_act": "gelu_pytorch_tanh",
                         "max_position_embeddings": 2048}, 128),
}
N_PROMPT, N_GREEDY, MARGIN = 20, 16, 0.02


def describe(name, shape):
    """A line of tensors.json: matrices keep the scale of their input, norms are about 1."""
    if len(shape) == 2:
        reach = 1.732 if "embed" in name else (3 / shape[1]) ** 0.5
        low, high = -reach, reach
    elif name.endswith("bias"):
        low, high = -0.2, 0.2
    else:
        low, high = 0.7, 1.3
    return {"name": name, "dtype": "BF16", "shape": list(shape), "gen": "uniform", "lo": round(low, 4),
            "hi": round(high, 4)}


def save(path, arrays):
    header, at = {}, 0
    for name, array in arrays.items():
        header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for array in arrays.values():
            out.write(np.ascontiguousarray(array, np.float32).tobytes())


def make_model(module, text):
    """The reference's language model with its own config class, dropout off."""
    language = importlib.import_module(f"mlx_vlm.models.{module}.language")
    config = importlib.import_module(f"mlx_vlm.models.{module}.config").TextConfig.from_dict(text)
    return language.LanguageModel(config)


def run(model, tokens):
    """Logits of the prompt, greedy ids, and the logits that each was taken from."""
    cache_class = importlib.import_module("mlx_vlm.models.cache").KVCache
    cache = [cache_class() for _ in model.layers]
    logits = np.array(model(mx.array([tokens]), cache=cache).logits[0])
    rows, ids = [logits[-1]], [int(logits[-1].argmax())]
    while len(ids) < N_GREEDY:
        rows.append(np.array(model(mx.array([[ids[-1]]]), cache=cache).logits[0, 0]))
        ids.append(int(rows[-1].argmax()))
    return logits, ids, np.stack(rows)


def make_case(name, weights_tool, folder):
    module, prefix, top, text, n_ids = CASES[name]
    os.makedirs(folder, exist_ok=True)
    config = dict(top, text_config=text, torch_dtype="bfloat16")
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as out:
        json.dump(config, out, indent=1)
        out.write("\n")
    model = make_model(module, text)
    shapes = [(prefix + key, value.shape) for key, value in tree_flatten(model.parameters())]
    for seed in range(1, 1000):
        lines = ",\n".join(json.dumps(describe(key, shape)) for key, shape in shapes)
        with open(os.path.join(folder, "tensors.json"), "w", encoding="utf-8") as out:
            out.write(f'{{"seed":{seed},"metadata":{{"format":"mlx"}},"tensors":[\n{lines}\n]}}\n')
        with tempfile.TemporaryDirectory() as work:
            subprocess.run([sys.executable, weights_tool, folder, "-o", work], check=True, capture_output=True)
            arrays = mx.load(os.path.join(work, "model.safetensors"))
            model.load_weights([(key[len(prefix):], value.astype(mx.float32)) for key, value in arrays.items()])
            model.eval()
        prompt = [int(n) for n in np.random.default_rng(seed).integers(0, n_ids, N_PROMPT)]
        logits, ids, rows = run(model, prompt)
        best = np.sort(rows, axis=1)[:, -2:]
        margin, largest = float((best[:, 1] - best[:, 0]).min()), float(max(np.abs(logits).max(), np.abs(rows).max()))
        if margin >= MARGIN and (n_ids == text["vocab_size"] or max(prompt) >= text["vocab_size"]):
            break
    save(os.path.join(folder, "golden.safetensors"), {"logits": logits, "greedy_logits": rows})
    golden = {"model_type": text["model_type"], "family": module, "reference": "mlx-vlm language model",
              "what": "text part, prompt with added ids" if n_ids > text["vocab_size"] else "text part",
              "prompt_ids": prompt, "greedy_ids": ids, "tolerance": round(1e-3 + 1e-4 * largest, 5),
              "min_greedy_margin": round(margin, 4), "logits_std": round(float(logits.std()), 2),
              "max_abs_logit": round(largest, 3)}
    with open(os.path.join(folder, "golden.json"), "w", encoding="utf-8") as out:
        json.dump(golden, out, indent=1)
        out.write("\n")
    print(f"{name}: seed {seed}, margin {margin:.3f}, logits up to {largest:.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weights", required=True, help="weights.py of the shared golden set")
    parser.add_argument("--output", required=True)
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    mx.set_default_device(mx.cpu)
    for name in args.names or CASES:
        make_case(name, args.weights, os.path.join(args.output, name))


if __name__ == "__main__":
    main()
