#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares `mlxcel inspect` with a folder of real configs (data/configs of the shared material: README.md there).

    scripts/check-inspect.py [--tool build/release/mlxcel] [--configs FOLDER] [--bind] [--types T,..] [--only TEXT] [-v]

For each folder with a config.json: the parameters that inspect reports, and the bytes of all weights and of each format,
are within 1 % of the text tensors in tensors.txt; the bytes that a token takes in caches without window follow from the
rows of the projections to keys and values, where those have tensors of their own. With --bind a checkpoint of the names and shapes in tensors.txt is made (sparse files: no weights are
written) and inspected, which finds a name or shape that the loader would miss; tensors of the text part that it leaves
unused are listed. One line for each config, a summary at the end; exit 1 when a config differs."""
import argparse
import csv
import json
import os
import re
import subprocess
import sys
import tempfile

# Modules of other modalities in multimodal checkpoints.
TOWER = re.compile(
    r"(^|\.)(vision\w*|visual|vit\w*|audio\w*|sam_model|\w*projector\w*|\w*merger\w*|connector\w*|embed_vision|"
    r"embed_audio|image_\w+|view_separator|perceiver\w*|resampler\w*|sound\w*|talker|code2wav|code_predictor|"
    r"img_\w+|mlp1|qwen2_model|vq\w*|sam\w*|gating\w*|region\w*)(\.|$)")
DTYPE_BYTES = {"U32": 4, "U8": 1, "BF16": 2}


def expand(name):
    """Names of a pattern: {0-15}, {3-39/4}, {1,3}."""
    match = re.search(r"\{([^}]*)\}", name)
    if not match:
        yield name
        return
    for part in match.group(1).split(","):
        span = re.fullmatch(r"(\d+)-(\d+)(?:/(\d+))?", part)
        numbers = range(int(span[1]), int(span[2]) + 1, int(span[3] or 1)) if span else [part]
        for number in numbers:
            yield from expand(name[:match.start()] + str(number) + name[match.end():])


def read_tensors(folder):
    """(name, kind, shape) of every tensor."""
    with open(os.path.join(folder, "tensors.txt"), encoding="utf-8") as lines:
        for line in lines:
            if not line.strip():
                continue
            name, kind, shape = line.rstrip("\n").split("\t")
            shape = [int(n) for n in re.findall(r"\d+", shape)]
            for one in expand(name):
                yield one, kind, shape


def count(kind, shape):
    n = 1
    for size in shape:
        n *= size
    return 4 * n if kind == "u8" else n


def stored(name, kind, shape):
    """The tensors of the file: (name, dtype, shape)."""
    base = name[:-len(".weight")] if name.endswith(".weight") else name
    parts = kind.split(":")
    if kind == "16":
        return [(name, "BF16", shape)]
    if kind == "u8":
        return [(name, "U8", shape), (base + ".weight_scale", "BF16", [1])]
    bits, group = int(parts[1]), int(parts[2])
    scales = shape[:-1] + [shape[-1] // group]
    out = [(name, "U32", shape[:-1] + [shape[-1] * bits // 32])]
    out.append((base + ".scales", "BF16" if parts[0] == "affine" else "U8", scales))
    if parts[0] == "affine":
        out.append((base + ".biases", "BF16", scales))
    return out


def write_sparse(folder, tensors):
    header, at = {"__metadata__": {"format": "mlx"}}, 0
    for name, kind, shape in tensors:
        for stored_name, dtype, stored_shape in stored(name, kind, shape):
            size = DTYPE_BYTES[dtype]
            for n in stored_shape:
                size *= n
            header[stored_name] = {"dtype": dtype, "shape": stored_shape, "data_offsets": [at, at + size]}
            at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(os.path.join(folder, "model.safetensors"), "wb") as out:
        out.write(len(text).to_bytes(8, "little") + text)
        out.truncate(8 + len(text) + at)


def weight_bytes(tensors, plain_bytes):
    """format as inspect names it ("plain": what is not quantised) -> bytes"""
    sizes = {}
    for _, kind, shape in tensors:
        n, parts = 1, kind.split(":")
        for size in shape:
            n *= size
        if kind == "16":
            name, size = "plain", plain_bytes * n
        elif kind == "u8":
            name, size = "ternary", n
        else:
            bits, group = int(parts[1]), int(parts[2])
            name = f"affine-{bits}" if parts[0] == "affine" else parts[0]
            size = n * bits // 8 + n // group * (4 if parts[0] == "affine" else 1)
        sizes[name] = sizes.get(name, 0) + size
    return sizes


def compare_bytes(report, tensors, config):
    """What differs, or an empty text. Formats of less than 2 % of the whole do not count by themselves."""
    plain_bytes = 4 if "float32" in (config.get("torch_dtype"), config.get("dtype")) else 2
    expected, found = weight_bytes(tensors, plain_bytes), dict(report["weight_bytes_by_format"])
    if "modelopt" in json.dumps(config.get("quantization_config")):
        return ""  # tensors.txt has no kind for these
    found["plain"] = sum(found.pop(plain, 0) for plain in ("vectors", "bf16", "f16", "f32"))
    total = sum(expected.values())
    if abs(report["weight_bytes"] / total - 1) > 0.01:
        return f"{report['weight_bytes']} bytes of weights, expected {total}"
    for name in expected.keys() | found.keys():
        wanted, got = expected.get(name, 0), found.get(name, 0)
        if max(wanted, got) > 0.02 * total and abs(got - wanted) > 0.01 * wanted:
            return f"{got} bytes of {name}, expected {wanted}"
    return ""


def compare_caches(report, tensors):
    """The same for the bytes of one token in caches of f16."""
    rows = [shape[-2] * (4 if kind == "u8" else 1) for name, kind, shape in tensors
            if re.search(r"self_attn\.(k_proj|v_proj|kv_a_proj_with_mqa)\.weight$", name)]
    # A latent lies in its page twice: by columns as a key, by rows as a value.
    rows += [shape[-1] for name, _, shape in tensors if name.endswith("self_attn.kv_a_layernorm.weight")]
    names = " ".join(name for name, _, _ in tensors)
    if not rows or report["window_bytes_per_sequence"] or "indexer" in names or "cross_attn" in names:
        return ""
    wanted = 2 * sum(rows)
    got = report["kv_bytes_per_token"]
    return "" if got == wanted else f"{got} bytes of caches for a token, expected {wanted}"


def inspect(tool, path):
    done = subprocess.run([tool, "inspect", path, "--json"], capture_output=True, text=True, timeout=120)
    if done.returncode:
        return None, done.stderr.strip()
    return json.loads(done.stdout), ""


def check(tool, folder, expected, bind):
    """Returns (verdict, detail)."""
    tensors = list(read_tensors(folder))
    text = [t for t in tensors if not TOWER.search(t[0])]
    wanted = sum(count(kind, shape) for _, kind, shape in text)
    if len(text) == len(tensors) and expected:
        wanted = expected
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as source:
        config = json.load(source)
    report, error = inspect(tool, folder)
    if not report:
        return "unsupported" if "is not supported" in error else "FAIL", error
    share = report["parameters"] / wanted - 1
    if abs(share) > 0.01:
        return "FAIL", f"{report['parameters']} parameters, expected {wanted} ({100 * share:+.2f} %)"
    different = compare_bytes(report, text, config) or compare_caches(report, text)
    if different:
        return "FAIL", different
    if not bind:
        return "ok", f"{report['parameters']} parameters ({100 * share:+.3f} %)"
    with tempfile.TemporaryDirectory() as work:
        with open(os.path.join(folder, "config.json"), "rb") as source:
            with open(os.path.join(work, "config.json"), "wb") as out:
                out.write(source.read())
        write_sparse(work, tensors)
        report, error = inspect(tool, work)
    if not report:
        return "FAIL", error
    unused = [name for name in report["unused_tensors"] if not TOWER.search(name)]
    detail = f"{report['parameters']} parameters bound"
    return "ok", detail + (f"; {len(unused)} text tensors unused: {', '.join(unused[:4])}" if unused else "")


def main():
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", default=os.path.join(here, "build/release/mlxcel"))
    parser.add_argument("--configs", default=os.path.join(here, "../shared/data/configs"))
    parser.add_argument("--bind", action="store_true")
    parser.add_argument("--types", help="model types, separated by commas")
    parser.add_argument("--only", default="", help="folders whose name holds this")
    parser.add_argument("-v", action="store_true", help="list those that agree, too")
    args = parser.parse_args()
    with open(os.path.join(args.configs, "index.csv"), encoding="utf-8") as lines:
        rows = {row["folder"]: row for row in csv.DictReader(lines)}
    types, counts = args.types.split(",") if args.types else None, {}
    for name in sorted(os.listdir(args.configs)):
        folder = os.path.join(args.configs, name)
        if args.only not in name or not os.path.exists(os.path.join(folder, "tensors.txt")):
            continue
        row = rows.get(name, {})
        if types and row.get("model_type") not in types:
            continue
        verdict, detail = check(args.tool, folder, int(row.get("params_total") or 0), args.bind)
        counts[verdict] = counts.get(verdict, 0) + 1
        if args.v or verdict != "ok" or "unused" in detail:
            print(f"{verdict:<12} {name} ({row.get('model_type', '?')}): {detail}")
    print(", ".join(f"{n} {verdict}" for verdict, n in sorted(counts.items())) or "no configs")
    return 1 if counts.get("FAIL") or not counts else 0


if __name__ == "__main__":
    sys.exit(main())
