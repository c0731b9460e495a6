#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Computes a golden case in MLX layout with mlx-lm.

    scripts/golden-from-mlx-lm.py tests/golden/cases/NAME-bf16 [...] [--notes TEXT]

Each folder holds a tiny config.json of the family (sizes of 64 or so, two or three layers), plain or with an affine
quantization of all that can be quantised. The script writes tensors.json, golden.json and golden.safetensors beside it: logits over a prompt and 16 greedy steps through
the cache, in float32 on the CPU. Names and shapes are those of mlx-lm's model. Text parts that only mlx-vlm has:
make-text-golden.py.

Needs numpy, mlx (on a CPU: mlx[cpu]) and mlx-lm."""
import argparse
import importlib.metadata
import json
import os
import pathlib
import tempfile

import mlx.core as mx
import numpy as np
from mlx.utils import tree_flatten
from mlx_lm.models.cache import make_prompt_cache
from mlx_lm.utils import _get_classes, load_model

import golden_case


def logits_of(model, ids, cache):
    return np.array(model(mx.array([ids]), cache=cache).astype(mx.float32)[0])


def describe(model, quantization):
    shapes, entries = {name: value.shape for name, value in tree_flatten(model.parameters())}, []
    tied = not any("head" in name for name in shapes)
    quantised = {name for name, module in model.named_modules() if quantization and hasattr(module, "to_quantized")
                 and module.weight.shape[-1] % quantization["group_size"] == 0}
    for name, shape in sorted(shapes.items()):
        module = name[:-len(".weight")]
        if module in quantised:
            entries += golden_case.describe_affine(module, shape[:-1], shape[-1], quantization["bits"],
                                                   quantization["group_size"])
        else:
            entries.append(golden_case.describe(name, shape, tied))
    return entries


def make_case(folder, notes):
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as text:
        config = json.load(text)
    model_class, args_class = _get_classes(config)
    entries = describe(model_class(args_class.from_dict(config)), config.get("quantization"))

    def run(arrays, prompt):
        with tempfile.TemporaryDirectory() as work:
            golden_case.save_json(os.path.join(work, "config.json"), config)
            golden_case.save_safetensors(os.path.join(work, "model.safetensors"), arrays, metadata={"format": "mlx"})
            model = load_model(pathlib.Path(work))[0]
        cache = make_prompt_cache(model)
        logits = logits_of(model, prompt, cache)
        rows, ids = [logits[-1]], [int(logits[-1].argmax())]
        while len(ids) < golden_case.N_GREEDY:
            rows.append(logits_of(model, ids[-1:], cache)[0])
            ids.append(int(rows[-1].argmax()))
        again = logits_of(model, prompt + ids[:-1], make_prompt_cache(model))
        checks = {"step_vs_prompt": float(f"{np.abs(again[len(prompt) - 1:] - np.stack(rows)).max():.2g}")}
        return logits, ids, np.stack(rows), {}, checks

    golden_case.make(folder, config, entries, "mlx", f"mlx-lm {importlib.metadata.version('mlx-lm')}", run, notes)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", metavar="FOLDER")
    parser.add_argument("--notes", default="")
    args = parser.parse_args()
    mx.set_default_device(mx.cpu)
    for folder in args.folders:
        make_case(folder, args.notes)


if __name__ == "__main__":
    main()
