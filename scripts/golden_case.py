# SPDX-License-Identifier: Apache-2.0
"""What the scripts that compute golden cases share: weights from names, the files of a case, the choice of a seed.

A case is a folder with config.json (tiny), tensors.json (how every weight follows from its name), golden.json (prompt,
greedy ids) and golden.safetensors (the reference's logits). Weights are never stored: word i of a tensor is SplitMix64
started at FNV-1a(name) xor (seed * 0x9e3779b97f4a7c15), and a value is lo + (hi - lo) * u with u of its upper 24 bits."""
import json
import os
import struct

import numpy as np

GOLDEN, MASK = 0x9E3779B97F4A7C15, (1 << 64) - 1
N_PROMPT, N_GREEDY, MARGIN = 24, 16, 0.03


def words(name, seed, count):
    start = 0xCBF29CE484222325
    for byte in name.encode():
        start = ((start ^ byte) * 0x100000001B3) & MASK
    start ^= seed * GOLDEN & MASK
    with np.errstate(over="ignore"):
        z = np.uint64(start) + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(GOLDEN)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def values(entry, seed, others=None):
    """The tensor of a line of tensors.json: codes as uint32; the rest as float32, rounded to bf16 as the file holds it."""
    if entry["gen"] == "bits":
        return (words(entry["name"], seed, int(np.prod(entry["shape"]))) >> np.uint64(32)).astype(np.uint32).reshape(
            entry["shape"])
    if entry["gen"] == "scaled":
        return others[entry["of"]] * np.float32(entry["by"])  # by is a power of two: exact
    u = (words(entry["name"], seed, int(np.prod(entry["shape"]))) >> np.uint64(40)).astype(np.float64) / 2.0**24
    bits = (entry["lo"] + (entry["hi"] - entry["lo"]) * u).astype(np.float32).view(np.uint32)
    bits = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) & np.uint32(0xFFFF0000)
    return bits.view(np.float32).reshape(entry["shape"])


def describe(name, shape, tied):
    """A line of tensors.json: matrices keep the scale of their input, norms are about 1, biases are small."""
    is_table = "embed" in name or name.endswith(("wte.weight", "wpe.weight"))
    if len(shape) >= 2:
        reach = 1.5 * (3 / shape[-1]) ** 0.5 if "head" in name or (is_table and tied) else (3 / shape[-1]) ** 0.5
        low, high = (-1.0, 1.0) if is_table and not tied else (-reach, reach)
    elif name.endswith("bias"):
        low, high = -0.2, 0.2
    else:
        low, high = 0.7, 1.3
    return {"name": name, "dtype": "BF16", "shape": list(shape), "gen": "uniform", "lo": round(low, 4),
            "hi": round(high, 4)}


def describe_affine(module, rows, columns, bits, group):
    """The three lines of an affine matrix [rows, columns]; the codes are uniform, so that its entries are within
    +-2 ^ (bits - 1) times their scale."""
    middle = 3.0**0.5 / columns**0.5 / 2.0 ** (bits - 1)
    scales = {"name": module + ".scales", "dtype": "BF16", "shape": [*rows, columns // group], "gen": "uniform",
              "lo": float(f"{0.5 * middle:.4g}"), "hi": float(f"{1.5 * middle:.4g}")}
    return [{"name": module + ".weight", "dtype": "U32", "shape": [*rows, columns * bits // 32], "gen": "bits"}, scales,
            {**scales, "name": module + ".biases", "gen": "scaled", "of": scales["name"], "by": -(2.0 ** (bits - 1))}]


def arrays_of(entries, seed):
    arrays = {}
    for entry in entries:
        arrays[entry["name"]] = values(entry, seed, arrays)
    return arrays


def save_safetensors(path, arrays, metadata=None):
    """Arrays are float32 or uint32."""
    header, at = {"__metadata__": metadata} if metadata else {}, 0
    for name, array in arrays.items():
        dtype = "U32" if array.dtype == np.uint32 else "F32"
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [at, at + array.size * 4]}
        at += array.size * 4
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for array in arrays.values():
            out.write(np.ascontiguousarray(array).tobytes())


def save_json(path, value):
    with open(path, "w", encoding="utf-8") as out:
        json.dump(value, out, indent=1)
        out.write("\n")


def save_manifest(folder, seed, entries, layout):
    lines = ",\n".join(json.dumps(entry) for entry in entries)
    with open(os.path.join(folder, "tensors.json"), "w", encoding="utf-8") as out:
        out.write(f'{{"seed":{seed},"metadata":{{"format":"{layout}"}},"tensors":[\n{lines}\n]}}\n')


def marker_ids(config):
    """Ids with a meaning (padding, images), which stay out of prompts."""
    for key, value in config.items():
        if isinstance(value, dict):
            yield from marker_ids(value)
        elif isinstance(value, int) and key.endswith(("_token_id", "_token_index")):
            yield value


def make(folder, config, entries, layout, reference, run, notes="", last_seed=100):
    """Looks for a seed whose greedy choices have a margin and vary, and writes the case.

    run(arrays, prompt) -> (logits [T, V], greedy ids, greedy logits [N, V], {"layer.N": [T, H]}, checks)."""
    allowed = sorted(set(range((config.get("text_config") or config)["vocab_size"])) - set(marker_ids(config)))
    for seed in range(1, last_seed):
        prompt = [int(n) for n in np.random.default_rng(seed).choice(allowed, N_PROMPT)]
        logits, ids, rows, layers, checks = run(arrays_of(entries, seed), prompt)
        best = np.sort(rows, axis=1)[:, -2:]
        margin = float((best[:, 1] - best[:, 0]).min())
        if margin >= MARGIN and len(set(ids)) >= N_GREEDY // 3:
            break
    else:
        raise SystemExit(f"{folder}: no seed below {last_seed} gives greedy choices with a margin of {MARGIN}")
    save_manifest(folder, seed, entries, layout)
    save_safetensors(os.path.join(folder, "golden.safetensors"), {
        name: np.asarray(array, np.float32) for name, array in {"logits": logits, "greedy_logits": rows, **layers}.items()})
    largest = float(max(np.abs(logits).max(), np.abs(rows).max()))
    save_json(os.path.join(folder, "golden.json"), {
        "model_type": config["model_type"], "reference": reference, "prompt_ids": prompt, "greedy_ids": ids,
        "tolerance": round(1e-3 + 1e-4 * largest, 5), "checks": checks, "logits_std": round(float(logits.std()), 3),
        "min_greedy_margin": round(margin, 4), "max_abs_logit": round(largest, 3), "notes": notes})
    print(f"{folder}: seed {seed}, margin {margin:.3f}, logits up to {largest:.2f}, checks {checks}")
