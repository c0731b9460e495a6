#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Throughput of a server at several numbers of clients, with nothing but Python's own library.

At each level N threads send one streamed chat request each, at the same time, with the same prompt and temperature 0.
  time to first token   from the request to the first piece of text or of thoughts
  decode rate           (tokens - 1) / (total - time to first token), of each request
  aggregate             all completion tokens / (last end - first start), of the requests that succeeded

    scripts/bench_serving_concurrency.py                                     a server that runs on 127.0.0.1:8080
    scripts/bench_serving_concurrency.py --url http://127.0.0.1:9931         any OpenAI-compatible one
    scripts/bench_serving_concurrency.py --serve models/novels-24m-4bit      starts and ends build/release/mlxcel
    scripts/bench_serving_concurrency.py --serve DIR --server-args "--threads 2"

With --serve, two more columns say what a busy machine cannot blur: completion tokens for each second of processor time that
the server got (prompts included), and the share of the time with work at hand that it spent outside of computing steps.
"""
import argparse
import csv
import json
import os
import shlex
import socket
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request
from http.client import HTTPConnection, HTTPException, HTTPSConnection

SENTENCE = (
    "Every morning the keeper of the lighthouse climbs the stairs, trims the lamp, writes the weather "
    "into his book and waits for the ships."
)
SERVED_COLUMNS = ["cpu_tok_s", "not_computing_%"]
COLUMNS = ["conc", "ok", "fail", "ttft_ms(mean)", "ttft_ms(p95)", "decode_tok_s(mean)", "aggregate_tok_s"]


def prompt_of(n_tokens):
    n_words = int(n_tokens / 1.3)
    return " ".join([SENTENCE] * (n_words // len(SENTENCE.split()) + 1))


def connect(url, timeout):
    kind = HTTPSConnection if url.scheme == "https" else HTTPConnection
    return kind(url.hostname, url.port, timeout=timeout)


def headers(arguments):
    both = {"Content-Type": "application/json"}
    if arguments.api_key:
        both["Authorization"] = "Bearer " + arguments.api_key
    return both


def first_model(arguments):
    try:
        request = urllib.request.Request(arguments.url + "/v1/models", headers=headers(arguments))
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.load(answer)["data"][0]["id"]
    except (OSError, ValueError, LookupError):
        return "default"


class Result:
    """One request: monotonic seconds; `error` is None when it succeeded."""

    def __init__(self):
        self.start = self.first = self.end = 0.0
        self.tokens = 0
        self.error = None

    def ttft(self):
        return (self.first or self.end) - self.start

    def rate(self):
        took = self.end - (self.first or self.end)
        return (self.tokens - 1) / took if took > 0 and self.tokens > 1 else 0.0


def stream(arguments, body, barrier, result):
    url = urllib.parse.urlsplit(arguments.url)
    n_pieces, usage = 0, None
    connection = connect(url, arguments.timeout)
    barrier.wait()
    result.start = time.monotonic()
    try:
        connection.request("POST", url.path + "/v1/chat/completions", body, headers(arguments))
        answer = connection.getresponse()
        if answer.status != 200:
            raise ValueError("status %d: %s" % (answer.status, answer.read(300).decode("utf-8", "replace")))
        for line in answer:
            if not line.startswith(b"data:") or line[5:].strip() == b"[DONE]":
                continue
            event = json.loads(line[5:])
            if "error" in event:
                raise ValueError(str(event["error"]))
            usage = event.get("usage") or usage
            for choice in event.get("choices") or []:
                delta = choice.get("delta") or {}
                if delta.get("content") or delta.get("reasoning_content") or delta.get("reasoning"):
                    result.first = result.first or time.monotonic()
                    n_pieces += 1
    except (OSError, ValueError, HTTPException) as error:
        result.error = str(error) or type(error).__name__
    result.end = time.monotonic()
    result.tokens = (usage or {}).get("completion_tokens") or n_pieces
    if not result.error and not result.tokens:
        result.error = "no tokens came"
    connection.close()


class Counters:
    """Of the server that was started: processor seconds, and seconds of steps and of having work."""

    def __init__(self, arguments, server):
        with open("/proc/%d/stat" % server.pid, encoding="utf-8") as file:
            fields = file.read().rpartition(")")[2].split()
        self.processor = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        request = urllib.request.Request(arguments.url + "/metrics", headers=headers(arguments))
        with urllib.request.urlopen(request, timeout=arguments.timeout) as answer:
            lines = [line.split() for line in answer.read().decode().splitlines() if not line.startswith("#")]
        values = {line[0]: float(line[1]) for line in lines if len(line) == 2}
        self.compute, self.active = values["mlxcel_compute_seconds_total"], values["mlxcel_active_seconds_total"]

    def since(self, before, n_tokens):
        active = self.active - before.active
        idle = 100 * (1 - (self.compute - before.compute) / active) if active > 0 else 0.0
        return [n_tokens / max(self.processor - before.processor, 0.01), idle]


def p95(values):
    return sorted(values)[round(0.95 * (len(values) - 1))]


def mean(values):
    return sum(values) / len(values)


def run_level(arguments, model, prompt, n):
    fields = {
        "model": model,
        "messages": [{"role": "user", "content": prompt}],
        "max_tokens": arguments.max_tokens,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if arguments.ignore_eos:
        fields["ignore_eos"] = True
    body = json.dumps(fields)
    results, barrier = [Result() for _ in range(n)], threading.Barrier(n)
    threads = [threading.Thread(target=stream, args=(arguments, body, barrier, r)) for r in results]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    good = [r for r in results if not r.error]
    for message in sorted({r.error for r in results if r.error}):
        print("    failed: " + message, file=sys.stderr)
    if not good:
        return [n, 0, n, 0.0, 0.0, 0.0, 0.0], 0
    first = [r.ttft() * 1000 for r in good]
    wall = max(r.end for r in good) - min(r.start for r in good)
    n_tokens = sum(r.tokens for r in good)
    return [n, len(good), n - len(good), mean(first), p95(first), mean([r.rate() for r in good]), n_tokens / wall], n_tokens


def table(columns, rows):
    cells = [columns] + [["%.1f" % c if isinstance(c, float) else str(c) for c in row] for row in rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(columns))]
    return "\n".join("  ".join(c.rjust(w) for c, w in zip(row, widths)) for row in cells)


def start_server(arguments):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [arguments.binary, "serve", "-m", arguments.serve, "--port", str(port), "--log-disable", "--metrics"]
    server = subprocess.Popen(command + shlex.split(arguments.server_args), stdout=subprocess.DEVNULL)
    arguments.url = "http://127.0.0.1:%d" % port
    until = time.monotonic() + arguments.timeout
    while time.monotonic() < until and server.poll() is None:
        try:
            urllib.request.urlopen(arguments.url + "/health", timeout=5).close()
            return server
        except OSError:
            time.sleep(0.1)
    server.kill()
    sys.exit("bench_serving_concurrency: the server did not start: " + " ".join(command))


def parse():
    parser = argparse.ArgumentParser(description="Throughput of a server at several numbers of clients.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("--url", help="instead of host and port: http://HOST:PORT[/PREFIX]")
    parser.add_argument("--api-key", default="")
    parser.add_argument("--model", help="default: the first of /v1/models, else \"default\"")
    parser.add_argument("--concurrency", default="1,2,4,8", help="levels, ascending (default 1,2,4,8)")
    parser.add_argument("--prompt-tokens", type=int, default=512)
    parser.add_argument("--max-tokens", type=int, default=128)
    parser.add_argument("--timeout", type=float, default=600)
    parser.add_argument("--ignore-eos", action="store_true", help="ask for answers of full length (mlxcel, llama-server)")
    parser.add_argument("--csv", help="also write the table to this file")
    parser.add_argument("--serve", metavar="MODEL", help="start a server with this model folder, and end it")
    parser.add_argument("--binary", default="build/release/mlxcel", help="of --serve")
    parser.add_argument("--server-args", default="", help="further options of the server of --serve, as one text")
    parser.add_argument("--warm-up", action="store_true", help="one request before the first level, not counted")
    arguments = parser.parse_args()
    try:
        arguments.levels = [int(n) for n in arguments.concurrency.split(",")]
    except ValueError:
        arguments.levels = [0]
    if min(arguments.levels) < 1 or arguments.prompt_tokens < 1 or arguments.max_tokens < 1:
        parser.error("levels and numbers of tokens are positive integers")
    arguments.url = (arguments.url or "http://%s:%d" % (arguments.host, arguments.port)).rstrip("/")
    if not urllib.parse.urlsplit(arguments.url).hostname:
        parser.error("--url takes http://HOST:PORT")
    return arguments


def measure(arguments, server):
    model, prompt = arguments.model or first_model(arguments), prompt_of(arguments.prompt_tokens)
    print("Server:      " + arguments.url)
    print("Model:       " + model)
    print("Prompt:      about %d tokens (%d words)" % (arguments.prompt_tokens, len(prompt.split())))
    print("Max tokens:  %d" % arguments.max_tokens)
    print("Concurrency: " + ",".join(map(str, arguments.levels)))
    if arguments.warm_up:
        run_level(arguments, model, prompt, 1)
    rows = []
    for n in arguments.levels:
        print(">>> concurrency=%d ..." % n, flush=True)
        before = Counters(arguments, server) if server else None
        row, n_tokens = run_level(arguments, model, prompt, n)
        rows.append(row + (Counters(arguments, server).since(before, n_tokens) if server else []))
    columns = COLUMNS + (SERVED_COLUMNS if server else [])
    print("\n" + table(columns, rows) + "\n")
    for place in (6, 7)[:2 if server else 1]:
        ones = [row[place] for row in rows if row[0] == 1 and row[place] > 0]
        others = ["%d: %.2fx" % (row[0], row[place] / ones[0]) for row in rows if ones and row[0] > 1]
        print("%s against one client: %s" % (columns[place], ", ".join(others)))
    if arguments.csv:
        with open(arguments.csv, "w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([columns] + [[round(c, 3) for c in row] for row in rows])
    return any(row[1] for row in rows)


def main():
    arguments = parse()
    server = start_server(arguments) if arguments.serve else None
    try:
        return 0 if measure(arguments, server) else 1
    finally:
        if server:
            server.terminate()
            server.wait(60)


if __name__ == "__main__":
    sys.exit(main())
