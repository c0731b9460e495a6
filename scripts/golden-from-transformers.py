#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Computes a golden case in Hugging Face layout with transformers.

    scripts/golden-from-transformers.py tests/golden/cases/hf-NAME [...] [--notes TEXT]

Each folder holds a tiny config.json of the family (sizes of 64 or so, two or three layers). The script writes tensors.json,
golden.json and golden.safetensors beside it: logits over a prompt, outputs of the layers, 16 greedy steps through the
cache; all in float32 on the CPU with eager attention. The names and shapes are those that save_pretrained writes. A
multimodal config runs by its text alone, and tensors of other modalities are left out of the case.

Needs numpy, torch and transformers (the shared set was made with torch 2.11.0, transformers 5.17.0)."""
import argparse
import json
import os
import re
import tempfile

import numpy as np
import torch
import transformers
from safetensors import safe_open

import golden_case

TOWER = re.compile(r"(^|\.)(vision\w*|visual|audio\w*|\w*projector|mlp_AR)(\.|$)")


def model_class(config):
    for auto in (transformers.AutoModelForCausalLM, transformers.AutoModelForImageTextToText):
        if type(config) in auto._model_mapping:
            return auto
    raise SystemExit(f"transformers has no causal language model of type {config.model_type}")


def tensor_shapes(folder):
    """name -> shape of what save_pretrained wrote."""
    shapes = {}
    for name in sorted(os.listdir(folder)):
        if name.endswith(".safetensors"):
            with safe_open(os.path.join(folder, name), "np") as stored:
                shapes.update((key, stored.get_slice(key).get_shape()) for key in stored.keys())
    return shapes


def decoder_layers(model):
    decoder = model.get_decoder() if hasattr(model, "get_decoder") else model
    for name in ("layers", "h", "blocks"):
        if isinstance(getattr(decoder, name, None), torch.nn.ModuleList):
            return getattr(decoder, name)
    return []


def keeper(outputs, name):
    """A hook that keeps what a layer returns."""
    def hook(module, inputs, output):
        outputs[name] = (output[0] if isinstance(output, tuple) else output)[0].numpy().copy()
    return hook


def greedy(model, prompt, outputs):
    """Ids, and the logits that each was taken from, through the cache."""
    rows, ids, cache = [outputs.logits[0, -1]], [], outputs.past_key_values
    while True:
        ids.append(int(rows[-1].argmax()))
        if len(ids) == golden_case.N_GREEDY:
            return ids, torch.stack(rows)
        outputs = model(input_ids=torch.tensor([ids[-1:]]), past_key_values=cache, use_cache=True)
        cache = outputs.past_key_values
        rows.append(outputs.logits[0, -1])


def make_case(folder, notes):
    config = transformers.AutoConfig.from_pretrained(folder)
    auto = model_class(config)
    torch.manual_seed(1)
    with tempfile.TemporaryDirectory() as work:
        auto.from_config(config, dtype=torch.float32, attn_implementation="eager").save_pretrained(work)
        shapes = tensor_shapes(work)
        towers = {name: np.zeros(shape, np.float32) for name, shape in shapes.items() if TOWER.search(name)}
    tied = not any(re.search(r"(head|embed_out)\.weight$", name) for name in shapes)
    entries = [golden_case.describe(name, shape, tied) for name, shape in sorted(shapes.items()) if name not in towers]

    @torch.no_grad()
    def run(arrays, prompt):
        with tempfile.TemporaryDirectory() as work:
            config.save_pretrained(work)
            golden_case.save_safetensors(os.path.join(work, "model.safetensors"), {**arrays, **towers},
                                         metadata={"format": "pt"})
            model, info = auto.from_pretrained(work, dtype=torch.float32, attn_implementation="eager",
                                               output_loading_info=True)
        if info["missing_keys"] or info["unexpected_keys"] or info["mismatched_keys"]:
            raise SystemExit(f"{folder}: the weights do not load: {info}")
        model.eval()
        layers, hooks = {}, []
        for i, layer in enumerate(decoder_layers(model)):
            hooks.append(layer.register_forward_hook(keeper(layers, f"layer.{i}")))
        ids = torch.tensor([prompt])
        full = model(input_ids=ids, use_cache=True)
        for hook in hooks:
            hook.remove()
        logits = full.logits[0].numpy().copy()
        chosen, rows = greedy(model, prompt, full)
        again = model(input_ids=torch.tensor([prompt + chosen[:-1]]), use_cache=False).logits[0]
        checks = {"prefill_vs_full": float((again[:len(prompt)] - torch.tensor(logits)).abs().max()),
                  "greedy_steps_vs_full": float((again[len(prompt) - 1:] - rows).abs().max())}
        return logits, chosen, rows.numpy(), layers, {name: float(f"{n:.2g}") for name, n in checks.items()}

    with open(os.path.join(folder, "config.json"), encoding="utf-8") as text:
        golden_case.make(folder, json.load(text), entries, "pt",
                         f"transformers {transformers.__version__} / torch {torch.__version__.split('+')[0]}", run, notes)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", metavar="FOLDER")
    parser.add_argument("--notes", default="")
    args = parser.parse_args()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    for folder in args.folders:
        make_case(folder, args.notes)


if __name__ == "__main__":
    main()
