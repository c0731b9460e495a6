#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the distributions that mlxcel samples from with numpy, step by step as docs/sampling.md states them.

    scripts/check-samplers.py [--cases 3000] [--seed 1] [--tool build/release/tests/sample_rows]

Random rows, texts and parameters; everything here is in double and sorts. A case in which some token lies within
rounding (1e-6) of a border is not judged; their number is printed. Needs numpy; about 10 ms a case."""
import argparse
import json
import subprocess
import sys

import numpy as np


class Ambiguous(Exception):
    pass


def border(distance, scale=1.0):
    """Raises when any of the distances from a border is within rounding."""
    if np.any(np.abs(distance) < 1e-6 * scale):
        raise Ambiguous


def softmax(x):
    w = np.exp(x - np.max(x))
    return w / w.sum()


def entropy(p):
    p = p[p > 0]
    return -(p * np.log(p)).sum()


def penalise(x, case):
    p, text = case["params"], case["text"]

    def window(name):
        n = p[name]
        return text if n < 0 else text[len(text) - min(n, len(text)):]

    for token, bias in case["logit_bias"]:
        x[token] = -np.inf if bias is None else x[token] + bias
    for token in set(window("repetition_last_n")):
        x[token] = x[token] / p["repetition_penalty"] if x[token] > 0 else x[token] * p["repetition_penalty"]
    dry(x, case, window("dry_last_n"))
    for token in window("frequency_last_n"):
        x[token] -= p["frequency_penalty"]
    for token in set(window("presence_last_n")):
        x[token] -= p["presence_penalty"]


def dry(x, case, text):
    p, breakers = case["params"], [tuple(b) for b in case["breakers"]]
    if p["dry_multiplier"] == 0:
        return
    limit = len(text)
    for head in range(len(text) - 1, -1, -1):
        fits = [len(b) for b in breakers if tuple(text[head:head + len(b)]) == b]
        if fits:
            limit = len(text) - head - max(fits)
            break
    longest = {}
    for at in range(1, len(text)):
        n = 0
        while n < min(limit, at) and text[at - 1 - n] == text[len(text) - 1 - n]:
            n += 1
        longest[text[at]] = max(longest.get(text[at], 0), n)
    for token, n in longest.items():
        if n >= max(p["dry_allowed_length"], 1) and (token,) not in breakers:
            x[token] -= p["dry_multiplier"] * p["dry_base"] ** (n - p["dry_allowed_length"])


def by_mass(order, p, target):
    """The places of an order up to and with the one whose sum first passes target."""
    sums = np.cumsum(p[order])
    border(sums[:-1] - target)
    return order[:int(np.searchsorted(sums, target, side="right")) + 1]


def filters(x, ids, p):
    """ids: tokens that are left, by descending logit and ascending token."""
    def largest(ids):
        return ids[np.lexsort((ids, -x[ids]))]

    ids = largest(ids)
    if p["top_n_sigma"] > 0:
        least = x[ids].max() - p["top_n_sigma"] * x[ids].std()
        border(x[ids] - least, max(1, abs(least)))
        ids = ids[x[ids] >= least]
    if p["top_k"] > 0:
        ids = ids[x[ids] >= x[ids][min(p["top_k"], len(ids)) - 1]]
    if 0 < p["typical_p"] < 1:
        q = softmax(x[ids])
        score = np.abs(-np.log(q) - entropy(q))
        order = np.lexsort((ids, score))
        if np.any(np.diff(score[order]) < 1e-5):
            raise Ambiguous
        ids = largest(ids[by_mass(order, q, p["typical_p"])])
    if 0 < p["top_p"] < 1:
        ids = ids[by_mass(np.arange(len(ids)), softmax(x[ids]), p["top_p"])]
    if p["min_p"] > 0:
        least = x[ids].max() + np.log(p["min_p"])
        border(x[ids] - least, max(1, abs(least)))
        ids = ids[x[ids] >= least]
    if p["xtc_probability"] == 1 and p["xtc_threshold"] <= 0.5:
        q = softmax(x[ids])
        border(q - p["xtc_threshold"])
        above = ids[q > p["xtc_threshold"]]
        if len(above) >= 2:
            ids = ids[x[ids] <= x[above].min()]
    return ids


def draw(x, ids, p):
    t = p["temperature"]
    if p["mirostat"]:
        x = x / t
        mu = 2 * p["mirostat_tau"]
        if len(ids) == 1:
            pass
        elif p["mirostat"] == 1:
            n = min(100, len(ids))
            rank = np.log((np.arange(1, n) + 1) / np.arange(1, n))
            s = (rank * (x[ids][:n - 1] - x[ids][1:n])).sum() / (rank * rank).sum()
            e = s - 1
            k = (e * 2 ** mu / (1 - len(x) ** -e)) ** (1 / s)
            border(k - round(k), max(1, k))
            ids = ids[:max(1, int(min(k, len(ids))))]
        else:
            surprise = -np.log2(softmax(x[ids]))
            border(surprise - mu)
            ids = ids[:max(1, int((surprise <= mu).sum()))]
        return ids, softmax(x[ids])
    if p["dynatemp_range"] > 0 and len(ids) > 1:
        low, high = max(0, t - p["dynatemp_range"]), t + p["dynatemp_range"]
        t = low + (high - low) * (entropy(softmax(x[ids])) / np.log(len(ids))) ** p["dynatemp_exponent"]
    q = softmax(x[ids] / t)
    if p["adaptive_target"] >= 0:
        d = np.abs(q - p["adaptive_target"]) / 0.3
        q = softmax(5 - 10 * d * d / (1 + d))
    return ids, q


def expected(case):
    x = np.array([-np.inf if v is None else v for v in case["logits"]], np.float32).astype(float)
    penalise(x, case)
    if "allowed" in case:
        banned = np.ones(len(x), bool)
        banned[case["allowed"]] = False
        x[banned] = -np.inf
    ids = np.flatnonzero(x > -np.inf)
    if len(ids) == 0:
        return ids, x[ids]
    p = case["params"]
    ids = ids[np.lexsort((ids, -x[ids]))] if p["mirostat"] else filters(x, ids, p)
    return draw(x, ids, p)


def make_case(r):
    n = int(r.choice([5, 40, 600, 3000, 12000], p=[0.1, 0.3, 0.3, 0.2, 0.1]))
    shape = r.integers(4)
    x = r.normal(0, [3, 0.7, 1.5, 6][shape], n)
    if shape == 2:
        x[r.integers(n, size=3)] += 8
    letters = r.integers(2, 12)

    def maybe(off, on, chance=0.3):
        return on if r.random() < chance else off

    params = {
        "temperature": float(r.uniform(0.2, 2.5)), "seed": int(r.integers(1 << 40)),
        "top_k": int(maybe(0, r.integers(1, 200))), "top_p": maybe(1.0, float(r.uniform(0.02, 0.999))),
        "min_p": maybe(0.0, float(10 ** r.uniform(-4, -0.1))), "typical_p": maybe(1.0, float(r.uniform(0.02, 0.999)), 0.2),
        "top_n_sigma": maybe(-1.0, float(r.uniform(0.3, 4)), 0.2),
        "xtc_probability": maybe(0.0, 1.0, 0.2), "xtc_threshold": float(10 ** r.uniform(-4, -0.3)),
        "dynatemp_range": maybe(0.0, float(r.uniform(0.05, 1)), 0.15), "dynatemp_exponent": float(r.uniform(0.5, 2)),
        "adaptive_target": maybe(-1.0, float(r.uniform(0, 1)), 0.1),
        "mirostat": int(maybe(0, r.integers(1, 3), 0.1)), "mirostat_tau": float(r.uniform(1, 6)),
        "repetition_penalty": maybe(1.0, float(r.uniform(0.5, 2))), "presence_penalty": maybe(0.0, float(r.normal())),
        "frequency_penalty": maybe(0.0, float(r.normal())), "dry_multiplier": maybe(0.0, float(r.uniform(0.1, 3))),
        "dry_base": float(r.uniform(1, 2)), "dry_allowed_length": int(r.integers(0, 5)),
    }
    for name in ("repetition_last_n", "presence_last_n", "frequency_last_n", "dry_last_n"):
        params[name] = int(r.choice([-1, 0, 5, 20, 64]))
    case = {
        "logits": [None if r.random() < 0.02 else float(np.float32(v)) for v in x], "params": params,
        "text": [int(v) for v in r.integers(min(letters, n), size=r.integers(0, 120))],
        "breakers": [[int(v) for v in r.integers(12, size=r.integers(1, 4))] for _ in range(r.integers(0, 3))],
        "logit_bias": [[int(t), maybe(float(r.normal(0, 3)), None)] for t in r.integers(n, size=r.integers(0, 4))],
    }
    if r.random() < 0.2:
        case["allowed"] = [int(t) for t in r.choice(n, size=max(1, n // 3), replace=False)]
    return case


def judge(case, answer):
    """None when equal, else what differs."""
    ids, q = expected(case)
    want = dict(zip(ids.tolist(), q.tolist()))
    got = {t: np.exp(l) for t, l in answer["top"]}
    if answer["token"] != -1 and answer["token"] not in got:
        return "token %d was drawn from a set that lacks it" % answer["token"]
    for token in set(want) | set(got):
        a, b = got.get(token, 0), want.get(token, 0)
        if abs(a - b) > 1e-8 + 5e-5 * b:
            return "token %d: probability %.9g, numpy %.9g (%d and %d tokens)" % (token, a, b, len(got), len(want))
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cases", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tool", default="build/release/tests/sample_rows")
    args = parser.parse_args()
    tool = subprocess.Popen([args.tool], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    r = np.random.default_rng(args.seed)
    equal = ambiguous = bad = 0
    for number in range(args.cases):
        case = make_case(r)
        tool.stdin.write(json.dumps(case) + "\n")
        tool.stdin.flush()
        answer = json.loads(tool.stdout.readline())
        try:
            why = answer.get("error") or judge(case, answer)
        except Ambiguous:
            ambiguous += 1
            continue
        if why:
            bad += 1
            print("case %d: %s\n  %s" % (number, why, json.dumps(case["params"])))
        else:
            equal += 1
    print("%d equal, %d different, %d on a border" % (equal, bad, ambiguous))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
