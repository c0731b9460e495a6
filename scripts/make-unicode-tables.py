#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes src/text/tokenizer/unicode_table.c.

The libraries in use know different versions of Unicode than the reference tokenizers do; the table holds what must be
corrected: code points that are newer than version 8, as far as their version or category matters.

usage: make-unicode-tables.py FOLDER > src/text/tokenizer/unicode_table.c

FOLDER holds one folder per Unicode version (15.0.0 15.1.0 16.0.0 17.0.1), each made by
`pip install --no-deps --target FOLDER/VERSION unicodedata2==VERSION`. Ages up to 14 and scripts come from perl
(Unicode::UCD, perl 5.36).
"""
import importlib
import subprocess
import sys

LIMIT = 0x110000
CATEGORIES = "Cn Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Cs Co".split()


def load(folder, version):
    sys.path.insert(0, f"{folder}/{version}")
    sys.modules.pop("unicodedata2", None)
    module = importlib.import_module("unicodedata2")
    sys.path.pop(0)
    return module


def perl_map(name):
    program = (
        'use Unicode::UCD "prop_invmap"; my ($l, $m) = prop_invmap("%s");'
        'for my $i (0 .. $#$l) { printf "%%d %%d %%s\\n", $l->[$i], $i < $#$l ? $l->[$i + 1] - 1 : 0x10ffff, $m->[$i] }'
        % name
    )
    for line in subprocess.run(["perl", "-e", program], check=True, capture_output=True, text=True).stdout.splitlines():
        first, last, value = line.split()
        yield int(first), int(last), value


def find_ages(modules):
    ages = [0] * LIMIT
    for first, last, value in perl_map("Age"):
        if value in ("Unassigned", "NA"):
            continue
        major, minor = value.lstrip("V").replace("_", ".").split(".")
        for c in range(first, last + 1):
            ages[c] = int(major) * 10 + int(minor)
    for version, module in modules:
        for c in range(LIMIT):
            if not ages[c] and module.category(chr(c)) != "Cn":
                ages[c] = version
    return ages


def merge(keys):
    rows = []
    for c, key in keys:
        if rows and rows[-1][1] == c - 1 and rows[-1][2] == key:
            rows[-1][1] = c
        else:
            rows.append([c, c, key])
    return rows


def print_rows(rows, per_line):
    for i in range(0, len(rows), per_line):
        print("    " + " ".join(rows[i : i + per_line]))


def main():
    folder = sys.argv[1]
    versions = ((150, "15.0.0"), (151, "15.1.0"), (160, "16.0.0"), (170, "17.0.1"))
    modules = [(number, load(folder, name)) for number, name in versions]
    newest = modules[-1][1]
    ages = find_ages(modules)

    def matters(c):
        category = newest.category(chr(c))
        return (
            ages[c] >= 150
            or category[0] in "MP"
            or category == "Cf"
            or newest.combining(chr(c))
            or newest.decomposition(chr(c))
        )

    newer = merge(
        (c, (ages[c], CATEGORIES.index(newest.category(chr(c)))))
        for c in range(LIMIT)
        if ages[c] >= 90 and matters(c)
    )
    names = {}
    scripts = []
    for first, last, value in perl_map("Script"):
        for c in range(first, last + 1):
            # The reference's scripts are those of Unicode 9, when two marks were still common to several.
            if value == "Unknown" or not 0 < ages[c] <= 90:
                continue
            script = "Common" if c in (0x589, 0x61C) else value
            number = names.setdefault(script, len(names) + 1)
            if scripts and scripts[-1][2] == number and scripts[-1][1] == c - 1:
                scripts[-1][1] = c
            else:
                scripts.append([c, c, number])
    print("/* SPDX-License-Identifier: Apache-2.0 */")
    print("/* Written by scripts/make-unicode-tables.py. */")
    print('#include "text/tokenizer/unicode.h"\n')
    print("/* first, last, version times ten, general category */")
    print("const struct unicode_newer unicode_newer[] = {")
    print_rows(["{0x%x, 0x%x, %d, %d}," % (a, b, age, category) for a, b, (age, category) in newer], 4)
    print("};\nconst size_t unicode_n_newer = sizeof unicode_newer / sizeof *unicode_newer;\n")
    print("/* first, last, script; scripts are numbered in the order of their first code point */")
    print("const struct unicode_script unicode_scripts[] = {")
    print_rows(["{0x%x, 0x%x, %d}," % tuple(row) for row in scripts], 4)
    print("};\nconst size_t unicode_n_scripts = sizeof unicode_scripts / sizeof *unicode_scripts;")
    print("const int unicode_script_hiragana = %d, unicode_script_katakana = %d, unicode_script_han = %d;" %
          (names["Hiragana"], names["Katakana"], names["Han"]))


main()
