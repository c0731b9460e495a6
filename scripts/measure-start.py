#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Time from start to the first byte of text, and peak memory, of `mlxcel generate`: the median of 5 runs.

    measure-start.py [MLXCEL [ARGUMENT...]]      default: build/release/mlxcel on the bundled model
"""
import os
import statistics
import subprocess
import sys
import time

RUNS = 5

command = sys.argv[1:] or ["build/release/mlxcel"]
command[1:1] = ["generate", "-p", "The old captain", "-n", "64", "-t", "0.7", "--seed", "1"]
milliseconds, mebibytes = [], []
for _ in range(RUNS):
    start = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    process.stdout.read(1)
    milliseconds.append(1000 * (time.monotonic() - start))
    process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{' '.join(command)} failed")
    mebibytes.append(usage.ru_maxrss / 1024)
print(f"first text after {statistics.median(milliseconds):.0f} ms, peak memory {statistics.median(mebibytes):.1f} MiB "
      f"(medians of {RUNS}; from {min(milliseconds):.0f} to {max(milliseconds):.0f} ms)")
