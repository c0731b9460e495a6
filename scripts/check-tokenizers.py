#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares tokenizers with the reference libraries on random Unicode strings, and measures both in the same run.

usage: check-tokenizers.py [-n N] [--seed S] [--build DIR] [--speed TEXT] [FOLDER...]

Each FOLDER holds one tokenizer: tokenizer.json is compared with PyPI `tokenizers`, tokenizer.model with PyPI
`sentencepiece` (up to 0.2.1: later versions resolve near ties otherwise), tiktoken ranks (beside a
tiktoken_config.json) with PyPI `tiktoken`; libraries that are not installed are left out. Without a FOLDER, one made tokenizer of each model kind is taken from tests/data/tokenizers.tar.xz.

Compared are ids, tokens and offsets of N strings (default 2000; tiktoken: ids), the decoded ids, and the decoding of N
lists of random ids. With --speed, the time to load, to encode the file TEXT as a whole and to decode it is measured
too: median of 5, processor time of one thread. Exit status 1 when anything differs.
"""
import argparse
import base64
import json
import os
import random
import subprocess
import sys
import tarfile
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"

MADE = ["bpe-bytelevel", "bpe-split-o200k", "bpe-llama", "bpe-gemma", "bpe-suffix", "bpe-unk", "unigram",
        "unigram-bytefallback", "unigram-precompiled", "wordpiece-uncased", "wordpiece-cased", "wordlevel"]
SHOWN = 3

# ---- random strings ----

BLOCKS = [(0x20, 0x7E), (0x20, 0x7E), (0x61, 0x7A), (0xA0, 0x17F), (0x300, 0x36F), (0x370, 0x52F), (0x590, 0x6FF),
          (0x900, 0xDFF), (0xE00, 0xEFF), (0x1100, 0x11FF), (0x1E00, 0x1FFF), (0x2000, 0x206F), (0x20A0, 0x2BFF),
          (0x3000, 0x30FF), (0x4E00, 0x9FFF), (0xAC00, 0xD7A3), (0xF900, 0xFAFF), (0xFB00, 0xFEFF), (0xFF00, 0xFFEF),
          (0x1D400, 0x1D7FF), (0x1F300, 0x1FAFF), (0x20000, 0x2A6DF), (0xE0000, 0xE007F), (0x0, 0x1F), (0x80, 0x9F),
          (0x0, 0x10FFFF)]
SPACES = [" ", "  ", "\n", "\t", "\r\n", "\u00a0", "\u3000", "\u2581", "   ", " \n "]


def random_text(rng, words):
    """A mixture of words, spaces, and runs of characters of one block."""
    parts = []
    for _ in range(rng.choice((0, 1, 1, 2, 3, 5, 8, 12))):
        what = rng.random()
        if what < 0.3:
            parts.append(rng.choice(words))
        elif what < 0.5:
            parts.append(rng.choice(SPACES))
        elif what < 0.6:
            parts.append(str(rng.randrange(10 ** rng.randrange(1, 9))))
        else:
            first, last = rng.choice(BLOCKS)
            run = [rng.randint(first, last) for _ in range(rng.randrange(1, 7))]
            parts.append("".join(chr(c) for c in run if not 0xD800 <= c <= 0xDFFF))
    return "".join(parts)


WORDS = ("the quick brown fox it's don't WE'LL I'm Hello hello, world! naïve café straße ΑΣ ß İstanbul ﬁne ① ½ x² a.b "
         "(foo) [bar] {baz} foo_bar --flag http://a.b/c?d=e 3.14 1,000 你好 世界 こんにちは 안녕 привет مرحبا שלום नमस्ते "
         "👍🏽 👨‍👩‍👧 🇩🇪 e\u0301 o\u0308\u0323 \u1100\u1161\u11a8 <s> </s> <unk> <pad> <mask> [CLS] [SEP] [MASK] [UNK] "
         "<|endoftext|> <|im_start|> <0x41> ## ##ing Ġthe ▁the").split(" ")

# ---- the two sides ----


class Program:
    def __init__(self, build, folder):
        self.build, self.folder = build, folder

    def lines(self, command, values, *options):
        text = "".join(json.dumps(value) + "\n" for value in values)
        run = subprocess.run([f"{self.build}/mlxcel", command, "-m", self.folder, "--jsonl", *options],
                             input=text, capture_output=True, text=True)
        if run.returncode:
            sys.exit(f"check-tokenizers.py: {run.stderr.strip()}")
        return [json.loads(line) for line in run.stdout.split("\n")[:-1]]


class HuggingFace:
    name = "tokenizers"
    options = ()

    def __init__(self, folder):
        import tokenizers

        self.version = tokenizers.__version__
        self.path = f"{folder}/tokenizer.json"
        self.load()

    def load(self):
        import tokenizers

        self.model = tokenizers.Tokenizer.from_file(self.path)
        self.model.no_truncation()
        self.model.no_padding()

    def encode(self, text):
        try:
            e = self.model.encode(text)
        except Exception:
            return {"error": True}
        return {"ids": e.ids, "tokens": e.tokens, "offsets": [list(o) for o in e.offsets]}

    def encode_ids(self, text):
        return self.model.encode(text, add_special_tokens=False).ids

    def decode(self, ids):
        try:
            return self.model.decode(ids, skip_special_tokens=False)
        except BaseException:  # a panic of the library
            return None

    def n_ids(self):
        return self.model.get_vocab_size(True)


class SentencePiece:
    name = "sentencepiece"
    options = ("--no-special",)

    def __init__(self, folder):
        import sentencepiece

        self.version = sentencepiece.__version__
        self.path = f"{folder}/tokenizer.model"
        self.load()

    def load(self):
        import sentencepiece

        self.model = sentencepiece.SentencePieceProcessor(model_file=self.path)

    def encode(self, text):
        try:
            proto = self.model.encode(text, out_type="immutable_proto")  # must outlive its pieces
            pieces = list(proto.pieces)
            return {"ids": [p.id for p in pieces], "tokens": [p.piece for p in pieces],
                    "offsets": [[p.begin, p.end] for p in pieces]}
        except ValueError:  # newer versions want the protobuf package for offsets
            return {"ids": self.model.encode(text), "tokens": self.model.encode(text, out_type=str)}

    def encode_ids(self, text):
        return self.model.encode(text)

    def decode(self, ids):
        return self.model.decode(ids)

    def n_ids(self):
        return self.model.get_piece_size()


class Tiktoken:
    name = "tiktoken"
    options = ("--no-special",)

    def __init__(self, folder):
        import tiktoken

        self.version = getattr(tiktoken, "__version__", "?")
        self.folder = folder
        self.load()

    def load(self):
        import tiktoken

        config = json.load(open(f"{self.folder}/tiktoken_config.json"))
        names = [n for n in os.listdir(self.folder) if n.endswith((".tiktoken", ".model"))]
        ranks = {}
        for line in open(f"{self.folder}/{names[0]}", "rb"):
            if line.strip() and not line.startswith(b"= "):
                token, rank = line.split()
                ranks[base64.b64decode(token)] = int(rank)
        self.model = tiktoken.Encoding("checked", pat_str=config["pat_str"], mergeable_ranks=ranks,
                                       special_tokens=config["special_tokens"])
        self.known = sorted([*ranks.values(), *config["special_tokens"].values()])

    def encode(self, text):
        return {"ids": self.model.encode(text, allowed_special="all")}

    def encode_ids(self, text):
        return self.model.encode(text, allowed_special="all")

    def decode(self, ids):
        known = set(self.known)
        return self.model.decode([i for i in ids if i in known])

    def n_ids(self):
        return self.known[-1] + 1


def reference(folder):
    for name, kind in (("tokenizer.json", HuggingFace), ("tiktoken_config.json", Tiktoken),
                       ("tokenizer.model", SentencePiece)):
        if os.path.exists(f"{folder}/{name}"):
            try:
                return kind(folder)
            except ImportError as missing:
                print(f"{folder}: left out: {missing}")
                return None
    print(f"{folder}: left out: no library reads this kind of file")
    return None


# ---- comparing ----


def compare(name, what, inputs, ours, theirs):
    wrong = [i for i in range(len(inputs)) if theirs[i] is not None and not equal(ours[i], theirs[i])]
    for i in wrong[:SHOWN]:
        print(f"  {name}: {what} {json.dumps(inputs[i])}\n    ours   {json.dumps(ours[i])}\n    theirs "
              f"{json.dumps(theirs[i])}")
    return len(wrong)


def equal(ours, theirs):
    if isinstance(theirs, dict):
        if "error" in theirs or "error" in ours:
            return "error" in theirs and "error" in ours
        return all(ours[key] == theirs[key] for key in theirs)
    return ours == theirs


def check(folder, args):
    rng = random.Random(args.seed)
    library = reference(folder)
    if not library:
        return 0
    program = Program(args.build, folder)
    name = os.path.basename(folder.rstrip("/"))
    texts = [random_text(rng, WORDS) for _ in range(args.n)]
    theirs = [library.encode(text) for text in texts]
    ours = program.lines("tokenize", texts, *library.options)
    n_wrong = compare(name, "text", texts, ours, theirs)
    lists = [e["ids"] for e in theirs if "ids" in e]
    most = library.n_ids()
    lists += [[rng.randrange(most) for _ in range(rng.randrange(12))] for _ in range(args.n)]
    decoded = [library.decode(ids) for ids in lists]
    n_wrong += compare(name, "ids", lists, program.lines("detokenize", lists), decoded)
    print(f"{name}: {args.n} strings and {len(lists)} id lists against {library.name} {library.version}: "
          f"{n_wrong} differences", flush=True)
    if args.speed:
        measure(name, folder, library, args)
    return n_wrong


def median_ms(action):
    times = []
    for _ in range(5):
        start = time.thread_time()
        action()
        times.append(time.thread_time() - start)
    return sorted(times)[2] * 1000


def measure(name, folder, library, args):
    text = open(args.speed, encoding="utf-8").read()
    megabytes = len(text.encode()) / 1e6
    load = median_ms(library.load)
    encode = median_ms(lambda: library.encode_ids(text))
    ids = library.encode_ids(text)
    decode = median_ms(lambda: library.decode(ids))
    print(f"  {library.name} {library.version}: load {load:.1f} ms, encode {megabytes / encode * 1000:.2f} MB/s, "
          f"decode {megabytes / decode * 1000:.2f} MB/s (processor time)")
    run = subprocess.run([f"{args.build}/bench/tokenizer", args.speed, folder], capture_output=True, text=True)
    print(f"  mlxcel: {(run.stdout or run.stderr).strip()}", flush=True)


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("-n", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--speed")
    parser.add_argument("folders", nargs="*")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        if not args.folders:
            here = os.path.dirname(os.path.abspath(__file__))
            with tarfile.open(f"{here}/../tests/data/tokenizers.tar.xz") as archive:
                archive.extractall(made)
            args.folders = [f"{made}/{name}" for name in MADE]
        n_wrong = sum(check(folder, args) for folder in args.folders)
    sys.exit(1 if n_wrong else 0)


main()
