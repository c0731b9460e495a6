#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes docs/models.md from the tables: seed rows, configs, the registry, golden cases, inspect, synthetic runs.

    scripts/make-models-doc.py [--tool build/release/mlxcel] [--shared ../shared] [--output docs/models.md] [--check]

Each row of the seed tables is mapped: row -> config (data/configs/index.csv) -> model type -> family (registry.c) -> its
file (src/models) -> the golden cases that this family builds -> what `mlxcel inspect` says about the config. Outcomes of
synthetic checkpoints come from docs/synthetic.csv (check-synthetic.py). --check only compares with the file that is there."""
import argparse
import csv
import json
import os
import re
import subprocess
import sys

formats = {}  # of weights -> names of cases
HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MOST_CASES = 4


def read_text(*path):
    with open(os.path.join(*path), encoding="utf-8") as text:
        return text.read()


def read_rows(*path):
    with open(os.path.join(*path), encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def read_registry():
    """(model type -> family), families as dicts in the order of the table."""
    entry = re.compile(r'\{"([^"]+)",\s*((?:"[^"]*"\s*)+),\s*(build_\w+),\s*((?:"[^"]*"\s*)+)\}')
    folder = os.path.join(HERE, "src/models")
    files = {}
    for name in sorted(os.listdir(folder)):
        if name.endswith(".c"):
            for builder in re.findall(r"^void (build_\w+)\(", read_text(folder, name), re.M):
                files[builder] = name
    by_type, families = {}, []
    for name, types, builder, _ in entry.findall(read_text(folder, "registry.c")):
        types = " ".join(re.findall(r'"([^"]*)"', types)).split()
        family = {"name": name, "types": types, "file": files[builder], "cases": []}
        families.append(family)
        by_type.update((one, family) for one in types)
    return by_type, families


def model_types(config):
    """The model types that choose a family, in the order in which they are tried."""
    parts = [config, config.get("text_config"), config.get("llm_config"), config.get("language_config"),
             (config.get("thinker_config") or {}).get("text_config")]
    return [part["model_type"].lower() for part in parts if isinstance(part, dict) and part.get("model_type")]


def read_config(folder):
    text = re.sub(r"(?<=[:\[,])(\s*)(-?Infinity|NaN)", r"\g<1>0", read_text(folder, "config.json"))
    return json.loads(text)


def add_cases(by_type, shared):
    """Every golden case to its family: [(name, model types)]. The project's copies of shared cases count once."""
    seen = set()
    for base, prefix in (("golden/text", ""), ("golden/hf", "hf/")):
        folder = os.path.join(shared, base)
        for name in sorted(os.listdir(folder)):
            seen.add(prefix + name)
            add_case(by_type, os.path.join(folder, name), prefix + name)
    own = os.path.join(HERE, "tests/golden/cases")
    for name in sorted(os.listdir(own)):
        if re.sub("^hf-", "hf/", name) not in seen and name not in seen:
            add_case(by_type, os.path.join(own, name), name + " (own)")


def weight_format(config):
    """The format of a case's matrices, by its config."""
    q = config.get("quantization") or config.get("quantization_config")
    if not q:
        return config.get("torch_dtype") or config.get("dtype") or "bfloat16"
    if any(isinstance(value, (dict, bool)) for key, value in q.items() if "." in key):
        return "overrides for modules"
    if q.get("quant_method"):
        return q["quant_method"]
    if q.get("mode", "affine") != "affine":
        return q["mode"]
    return f"affine, {q.get('bits', 4)} bits, group {q.get('group_size', 64)}"


def add_case(by_type, folder, name):
    if not os.path.exists(os.path.join(folder, "config.json")):
        return
    config = read_config(folder)
    types = model_types(config)
    formats.setdefault(weight_format(config), []).append(name)
    family = next((by_type[one] for one in types if one in by_type), None)
    if family:
        family["cases"].append((name, types))


def name_cases(family, types):
    """The cases of a row: those of its own model types first."""
    if not family or not family["cases"]:
        return "none"
    same = [name for name, case_types in family["cases"] if set(case_types) & set(types)]
    names = same or [name for name, _ in family["cases"]]
    # Of the weight formats' many cases those named after the type say most.
    first = [form.format(one) for one in (t.replace("_", "-") for t in types) for form in ("{}-q4", "{}-bf16", "{}-f16", "hf/{}")]
    names.sort(key=lambda name: first.index(name.replace("_", "-")) if name.replace("_", "-") in first else len(first))
    text = ", ".join(names[:MOST_CASES])
    return text + (f" and {len(names) - MOST_CASES} more" if len(names) > MOST_CASES else "")


def size_text(n):
    for unit, scale in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if n >= scale:
            return f"{n / scale:.2f} {unit}"
    return f"{n} bytes"


def inspect(tool, folder):
    """(verdict, parameters, weights, caches)"""
    done = subprocess.run([tool, "inspect", folder, "--json"], capture_output=True, text=True, timeout=120)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return "no: " + re.sub(r"^mlxcel: (\S+: )?", "", reason), "", "", ""
    report = json.loads(done.stdout)
    formats = sorted((n, name) for name, n in report["weight_bytes_by_format"].items() if name != "vectors")
    main = " + ".join(name for _, name in reversed(formats))
    caches = [size_text(report["kv_bytes_per_token"]) + " a token"] if report["kv_bytes_per_token"] else []
    if report["window_bytes_per_sequence"]:
        caches.append(size_text(report["window_bytes_per_sequence"]) + " windows")
    if report["state_bytes_per_sequence"]:
        caches.append(size_text(report["state_bytes_per_sequence"]) + " state")
    verdict = f"yes, text part ({report['unused_part']})" if report["unused_part"] else "yes"
    return (verdict, f"{report['parameters'] / 1e9:.3f} B", f"{size_text(report['weight_bytes'])} ({main})",
            ", ".join(caches) or "none")


def table(heads, rows):
    lines = ["| " + " | ".join(heads) + " |", "|" + " --- |" * len(heads)]
    return lines + ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]


def map_rows(args, kind, seed, by_type, synthetic):
    """The table of one seed file."""
    index = {(row["seed_model"], row["test_model"]): row["same_as"] or row["folder"]
             for row in read_rows(args.shared, "data/configs/index.csv") if row["kind"] == kind}
    rows, verdicts = [], {}
    for row in read_rows(args.shared, "reference/seed-tables", seed):
        folder = index.get((row["model"], row["test_model"]))
        path = os.path.join(args.shared, "data/configs", folder or "")
        if not folder or not os.path.exists(os.path.join(path, "config.json")):
            rows.append([row["model"], row["test_model"], row["model_type"], "", "no config", "", "", "", "", ""])
            continue
        config = read_config(path)
        types = model_types(config)
        chosen = next((one for one in types if one in by_type), None)
        family = by_type.get(chosen)
        verdict, parameters, weights, caches = verdicts.setdefault(folder, inspect(args.tool, path))
        rows.append([row["model"], row["test_model"], " / ".join(dict.fromkeys(types)),
                     family["file"] if family else "", name_cases(family, types), verdict, parameters, weights, caches,
                     synthetic.get(folder, "")])
    return rows


HEADS = ["row", "checkpoint", "model type", "family file", "golden cases", "inspect", "parameters", "weights",
         "caches (f16)", "16 tokens"]

HEADER = """\
# Models

Made by `scripts/make-models-doc.py`; edit that, not this file.

The rows are those of the original's published tables. For each: the `model_type` values of its config.json (the text
part's after a slash), the file in `src/models/` that describes the network, the golden cases that this family builds
(names of the shared set; `hf/` has Hugging Face layout and transformers as the reference; "own" lies in
`tests/golden/cases`; "none" says that no reference answer is checked), and what `mlxcel inspect` says about the real
config: whether it runs, parameters, bytes of the weights by format, bytes of the caches. Vision models count by their
text part. The last column is the outcome of `scripts/check-synthetic.py`: a checkpoint of random weights in that shape
and format was written, loaded, and generated 16 tokens (only up to 10 GB of weights; empty = not run).
"""


def write(args):
    by_type, families = read_registry()
    add_cases(by_type, args.shared)
    state = os.path.join(HERE, "docs/synthetic.csv")
    synthetic = {row["folder"]: row["outcome"] for row in read_rows(state)} if os.path.exists(state) else {}
    text = map_rows(args, "text", "text.csv", by_type, synthetic)
    vision = map_rows(args, "vlm", "vlm.csv", by_type, synthetic)
    lines = [HEADER]
    for title, rows in (("Text models", text), ("Text parts of vision models", vision)):
        n_yes, n_golden = sum(r[5].startswith("yes") for r in rows), sum(r[4] not in ("none", "no config") for r in rows)
        n_ran = sum(r[9] == "ok" for r in rows)
        lines += [f"## {title}", "", f"{len(rows)} rows; {n_yes} run, {n_golden} have a golden case of their family, "
                  f"{n_ran} ran with random weights.", "", *table(HEADS, rows), ""]
    lines += ["## Weight formats", "",
              "By the configs of the golden cases. Two layouts have tests of their own: NVFP4 as ModelOpt writes it "
              "(`tests/golden/triplet.c`), and E4M3 with a scale for each tensor or row "
              "(`tests/golden/fp8_scales.c`).", "",
              *table(["format", "cases", "for example"],
                     [[name, str(len(cases)), ", ".join(cases[:3])] for name, cases in sorted(formats.items())]), ""]
    lines += ["## Families", "", f"{len(families)} families, as in `mlxcel arch`.", "",
              *table(["family", "model types", "file", "golden cases"],
                     [[f["name"], " ".join(f["types"]), f["file"], ", ".join(n for n, _ in f["cases"]) or "none"]
                      for f in families]), ""]
    return "\n".join(lines).rstrip("\n") + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", default=os.path.join(HERE, "build/release/mlxcel"))
    parser.add_argument("--shared", default=os.path.join(HERE, "../shared"))
    parser.add_argument("--output", default=os.path.join(HERE, "docs/models.md"))
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    text = write(args)
    if args.check:
        return 0 if text == read_text(args.output) else 1
    with open(args.output, "w", encoding="utf-8") as out:
        out.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
