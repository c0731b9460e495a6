#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares mlxcel with mlx-lm on a real model: 20 prompts, 64 greedy tokens each.

    check-smollm2.py MLXCEL MODEL_FOLDER

mlx-lm computes in float32 on the dequantised weights (scales and biases are widened before they are used, since the
quantised product in bfloat16 is too coarse to compare with). Both get the same ids. Every logit must agree within 2e-3 +
2e-4 of the largest one, and the chosen tokens wherever the reference's two best logits differ by more than twice that.
Needs mlx, mlx-lm and numpy.
"""
import json
import subprocess
import sys

import mlx.core as mx
import mlx.nn as nn
import numpy as np
from mlx.utils import tree_map
from mlx_lm import load

PROMPTS = [
    "What is the capital of France?", "Write a short poem about the sea.", "Explain how photosynthesis works.",
    "Give me three ideas for a birthday party.", "Why is the sky blue?", "Translate 'good morning' into Spanish.",
    "What is 12 times 12?", "Summarise the story of Romeo and Juliet.", "Name five animals that live in Africa.",
    "How do I boil an egg?", "Write a Python function that adds two numbers.", "Who wrote Don Quixote?",
    "What causes earthquakes?", "Describe a winter morning.", "What is the difference between a frog and a toad?",
    "Tell me a joke.", "List the planets of the solar system.", "How can I sleep better?",
    "What does a carburettor do?", "Write a letter to a friend about a new job.",
]
N_TOKENS = 64


def widen(model):
    """Quantised layers become plain ones in float32."""
    def plain(layer):
        if isinstance(layer, (nn.QuantizedLinear, nn.QuantizedEmbedding)):
            scales, biases = layer.scales.astype(mx.float32), layer.biases.astype(mx.float32)
            weight = mx.dequantize(layer.weight, scales, biases, layer.group_size, layer.bits)
            if isinstance(layer, nn.QuantizedEmbedding):
                new = nn.Embedding(1, 1)
            else:
                new = nn.Linear(1, 1, bias="bias" in layer)
                if "bias" in layer:
                    new.bias = layer.bias.astype(mx.float32)
            new.weight = weight
            return new
        return layer
    model.update_modules(tree_map(plain, model.leaf_modules(), is_leaf=nn.Module.is_module))
    model.update(tree_map(lambda p: p.astype(mx.float32) if mx.issubdtype(p.dtype, mx.floating) else p,
                          model.parameters()))


def main():
    mlxcel, folder = sys.argv[1:3]
    mx.set_default_device(mx.cpu)
    model, tokenizer = load(folder)
    widen(model)
    worst, n_equal, n_tokens, failures = 0.0, 0, 0, 0
    for prompt in PROMPTS:
        ids = tokenizer.apply_chat_template([{"role": "user", "content": prompt}], add_generation_prompt=True)
        command = [mlxcel, "logits", "-m", folder, "--ids", ",".join(map(str, ids)), "--greedy", str(N_TOKENS),
                   "--precision", "exact", "--json"]
        ours = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        chosen = ours["greedy_ids"]
        reference = np.array(model(mx.array([ids + chosen[:-1]]))[0, len(ids) - 1:])
        logits = np.array(ours["greedy_logits"], dtype=np.float64)
        difference = np.abs(reference - logits).max()
        noise = 2e-3 + 2e-4 * np.abs(reference).max()
        worst = max(worst, difference)
        best_two = np.sort(reference, axis=1)[:, -2:]
        clear = best_two[:, 1] - best_two[:, 0] > 2 * noise
        equal = reference.argmax(axis=1) == np.array(chosen)
        n_equal += int(equal.sum())
        n_tokens += len(chosen)
        if difference > noise or (clear & ~equal).any():
            failures += 1
            print(f"differs: {prompt!r}: logits by {difference:.2e}, {int((clear & ~equal).sum())} clear choices")
    print(f"{len(PROMPTS) - failures} of {len(PROMPTS)} prompts agree; {n_equal} of {n_tokens} tokens equal; "
          f"largest difference of a logit {worst:.2e}")
    return failures > 0


if __name__ == "__main__":
    sys.exit(main())
