#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares mlxcel's Jinja interpreter with jinja2, set up as transformers' apply_chat_template sets it up.

    scripts/check-templates.py cases [--update]    the expected values of tests/data/jinja-cases.json: checked, or written
    scripts/check-templates.py random [-n 20000] [--seed 1] [--folder ../shared/data/templates]
        random expressions, statements and mutations of templates (of tests/data and of the folder): equal text or both
        an error. A difference is made smaller before it is printed.
    scripts/check-templates.py speed [--template FILE --context FILE]
        what bench/template.c measures, with jinja2

Needs jinja2 3.1.6 (PyPI). Not judged: what Python prints an address for, what runs longer than a second or into a
limit, complex numbers, bytes and sets of dict views (absent by intention). About 1 ms a case."""
import argparse
import copy
import datetime
import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
import time
import warnings

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.sandbox

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CASES = os.path.join(ROOT, "tests/data/jinja-cases.json")
CONFORMANCE = os.path.join(ROOT, "tests/data/jinja-conformance.json")
NOW = datetime.datetime(2026, 1, 15, 12, 34, 56)


# ---- the reference ----

class Generation(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_render"), [], [], body).set_lineno(line)

    def _render(self, caller):
        return caller()


class Raised(Exception):
    pass


class TooLong(BaseException):
    pass


def raise_exception(message):
    raise Raised(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def environment():
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda format: NOW.strftime(format)
    return env


ENV = environment()


def out_of_time(signum, frame):
    raise TooLong


def reference(template, context):
    """{"text"}, {"error", "kind", "message"} or None where Python ran into a limit."""
    signal.setitimer(signal.ITIMER_REAL, 1)
    try:
        text = ENV.from_string(template).render(**copy.deepcopy(context))
        text.encode()
        return {"text": str(text)}
    except Raised as e:
        return {"error": True, "kind": "raise_exception", "message": str(e)}
    except jinja2.TemplateSyntaxError as e:
        return {"error": True, "kind": "syntax", "message": str(e.message)}
    except (TooLong, RecursionError, MemoryError):
        return None
    except Exception as e:
        return {"error": True, "kind": type(e).__name__, "message": str(e)}
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        if len(ENV.cache) > 300:
            ENV.cache.clear()


# ---- the two side by side ----

def ours(program, cases):
    lines = "".join(json.dumps({"template": t, "context": c}) + "\n" for t, c in cases)
    p = subprocess.run([program, "apply-template", "--jsonl"], input=lines.encode(), stdout=subprocess.PIPE,
                       env=dict(os.environ, MLXCEL_NOW=str(NOW)), check=False)
    answers = [json.loads(line) for line in p.stdout.decode().split("\n") if line]
    if len(answers) != len(cases):
        bad = cases[len(answers)] if len(answers) < len(cases) else None
        sys.exit(f"{program} ended with status {p.returncode} after {len(answers)} answers; next: {bad!r}")
    return answers


def is_judged(expected, answer):
    if expected is None or answer.get("kind") in ("limit", "unsupported"):
        return False
    if "bytes" in answer.get("message", "") or "dict_" in answer.get("message", ""):
        return False
    text = re.sub("[^a-z0-9<]", "", str(expected.get("text", expected.get("message"))).lower())
    return not re.search(r"0x[0-9a-f]{8}|<(class|bound|builtin|function|generator|async|reversed|dictrev|listrev|mappingproxy)", text)


def agrees(expected, answer):
    if not expected.get("error"):
        return answer.get("text") == expected["text"]
    if not answer.get("error"):
        return False
    return expected["kind"] != "raise_exception" or (
        answer["kind"] == expected["kind"] and answer["message"] == expected["message"])


def differs(program, template, context):
    expected = reference(template, context)
    answer = ours(program, [(template, context)])[0]
    return is_judged(expected, answer) and not agrees(expected, answer)


TOKEN = re.compile(r"\{[{%#][-+]?|[-+]?[%}#]\}|'[^']*'|\"[^\"]*\"|\d+\.\d+|\w+|\s+|[=!<>]=|//|\*\*|.", re.S)


def shrink(program, template, context):
    parts = TOKEN.findall(template)
    tries, size = 0, len(parts) // 2
    while size >= 1 and tries < 400:
        at, shorter = 0, False
        while at < len(parts) and tries < 400:
            tries += 1
            rest = parts[:at] + parts[at + size:]
            if differs(program, "".join(rest), context):
                parts, shorter = rest, True
            else:
                at += size
        if not shorter or size > 1:
            size //= 2
    return "".join(parts)


# ---- random templates ----

STRINGS = ["", "a", "abc", "Hello World", "  pad\\t", "a,b,,c", "x=1", "line1\\nline2\\n", "\u00e9\u00df\u0130", "\U0001f600z", "<b>&\\\"",
           "12", "-3.5", "0x1F", "%s and %d", "{} {0}", "{a}", "ABC def", "aXbXc", "l\\r\\nm", "\u01c6x", "\u2028", "http://a.b/c?d=e f",
           "None", "true", "a-b_c", "the quick brown fox jumps over the lazy dog", "%5.2f|%x", "\u03a3\u03c3\u03c2", "{:>8}", "{0:05d}", "\\u0041"]
NUMBERS = ["0", "1", "2", "-1", "3", "7", "10", "100", "1.5", "-2.5", "0.1", "1e3", "1e20", "1e-7", "12345678901234567890", "0.5",
           "2.675", "1_000", "0b101", "0o17", "0xff", "255", "1000000", "3.0", "-0.0", "1e16", "123456789.123"]
VALUES = ["none", "true", "false", "None", "True", "missing", "[]", "{}", "()", "[1, 2, 3]", "['b', 'a', 'C']", "[3, 1.5, true]",
          "{'a': 1, 'b': [2]}", "{'k': 'v', 'n': none}", "('x', 2)", "[[1, 'a'], [2, 'b']]", "[{'a': 2, 'b': 'x'}, {'a': 1, 'b': 'Y'}]",
          "range(3)", "range(5, 0, -2)", "'abc'", "users", "obj", "text", "num", "neg", "flt", "nested", "words", "dict(a=1)", "namespace(a=1)",
          "[none, 1, '', [], 'x']", "{1: 'a', 2.5: 'b', 'c': true}", "''", "messages", "lipsumx", "obj.items()", "obj.keys()",
          "words|map('upper')", "[true, 1, 1.0, '1']", "{'z': 1, 'a': 2, 'M': 3}", "joiner(', ')", "cycler(1, 2)"]
CONTEXT = {
    "users": [{"name": "Ann", "age": 31, "tags": ["x", "y"]}, {"name": "bob", "age": 9, "tags": []},
              {"name": "Cid", "age": 31, "tags": ["y"]}],
    "obj": {"a": 1, "b": {"c": [1, 2, {"d": "deep"}]}, "items": 5, "Z": None}, "text": "The Quick <b>brown</b> fox\n  jumps \u00fcber",
    "num": 42, "neg": -7, "flt": 3.25, "nested": [[1, [2, [3]]], "s"], "words": ["apple", "Banana", "cherry", "apple"],
    "messages": [{"role": "system", "content": "You are."}, {"role": "user", "content": "Hi \"there\""},
                 {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "f", "arguments": {"x": 1.0, "y": "\u00e9"}}}]}],
    "flag": True, "nothing": None, "bos_token": "<s>", "eos_token": "</s>"}
METHODS = [m for m in dir(str) if not m.startswith("_")] + ["items", "keys", "values", "get", "copy", "count", "index", "pop", "append",
           "update", "is_integer", "bit_length", "real", "imag", "extend", "setdefault", "fromkeys", "next", "reset", "current", "isdecimal"]
FILTERS = sorted(set(ENV.filters) - {"random", "count"})
TESTS = sorted(t for t in ENV.tests if t.isalpha())
KEYWORDS = {  # keyword arguments worth trying
    "default": ["default_value", "boolean"], "d": ["boolean"], "dictsort": ["case_sensitive", "by", "reverse"], "indent": ["width", "first", "blank"],
    "int": ["default", "base"], "float": ["default"], "join": ["d", "attribute"], "sort": ["reverse", "case_sensitive", "attribute"],
    "round": ["precision", "method"], "tojson": ["indent", "separators", "sort_keys", "ensure_ascii"], "truncate": ["length", "killwords", "end", "leeway"],
    "unique": ["case_sensitive", "attribute"], "sum": ["attribute", "start"], "min": ["attribute"], "max": ["attribute", "case_sensitive"],
    "map": ["attribute", "default"], "groupby": ["attribute", "default", "case_sensitive"], "batch": ["linecount", "fill_with"],
    "slice": ["slices", "fill_with"], "wordwrap": ["width", "break_long_words", "wrapstring", "break_on_hyphens"], "filesizeformat": ["binary"],
    "trim": ["chars"], "replace": ["old", "new", "count"], "center": ["width"], "urlize": ["trim_url_limit", "nofollow", "target", "rel"],
    "xmlattr": ["autospace"]}
LIKELY = {  # arguments that reach further than random ones
    "map": ["'upper'", "attribute='name'", "attribute='tags.0'", "'int'", "'default', 3", "attribute='a', default='z'", "'length'", "'replace', 'a', 'b'", "'string'"],
    "select": ["", "'defined'", "'gt', 1", "'string'", "'odd'", "'in', [1, 2]"], "reject": ["", "'none'", "'equalto', 'a'", "'number'"],
    "selectattr": ["'age'", "'age', 'gt', 10", "'name', 'equalto', 'bob'", "'role', '==', 'user'"], "rejectattr": ["'age', 'eq', 31", "'tags'", "'role', 'in', ['user']"],
    "groupby": ["'age'", "attribute='role'", "0"], "sort": ["", "attribute='age'", "reverse=true", "attribute='age,name'", "case_sensitive=true"],
    "join": ["", "', '", "'-', attribute='name'", "1"], "attr": ["'a'", "'name'", "'upper'", "'__class__'"], "format": ["1, 2", "'a'", "a=1", "3.14159"],
    "tojson": ["", "indent=2", "indent=4", "separators=(',', ':')", "sort_keys=true", "ensure_ascii=true", "indent='--'"],
    "round": ["", "1", "2, 'floor'", "0, 'ceil'", "-1", "1, 'common'"], "int": ["", "7", "0, 16", "base=0", "default=none"],
    "truncate": ["", "5", "5, true", "5, true, '..', 0", "9, false, '', 0", "length=12"], "indent": ["", "2", "4, true", "'> '", "2, blank=true", "2, true, true"],
    "dictsort": ["", "true", "by='value'", "reverse=true", "false, 'value', true"], "wordwrap": ["10", "5", "5, false", "6, true, '|'", "8, break_on_hyphens=false"],
    "replace": ["'a', 'b'", "'', '-'", "'a', 'b', 1", "old='b', new=''"], "batch": ["2", "3, 'x'", "0"], "slice": ["2", "3, 'x'", "4"], "sum": ["", "attribute='age'", "start=[]", "'a'"],
    "unique": ["", "attribute='age'", "true"], "min": ["", "attribute='age'"], "max": ["", "attribute='name'"], "xmlattr": ["", "false"], "center": ["", "20", "width=11"]}


# Expressions that have a value more often than not: S text, I integer, F float, L list, D dict, B truth, s a literal text.
TYPED = {
    "S": ["s", "s", "text", "words[0]", "users[1].name", "messages[1]['content']", "(S)|upper", "(S)|lower", "(S)|title", "(S)|capitalize", "(S)|trim", "(S)|trim(s)", "(S)|replace(s, s)",
          "(S)|replace(s, s, I)", "(S)|indent", "(S)|indent(2, true)", "(S)|indent(width=3, blank=true)", "(S)|center(20)", "(S)|truncate(8)", "(S)|truncate(9, true)", "(S)|truncate(6, true, s, 1)",
          "(S)|wordwrap(7)", "(S)|wordwrap(5, false)", "(S)|urlencode", "(S)|escape", "(S)|e|upper", "(S)|striptags", "(S)|urlize", "(S)|urlize(5, true)", "(S)|string", "(S)|reverse", "(S)|default(s)",
          "(S)|tojson", "(S)|first", "(S)|last", "(S)|pprint", "(S)|safe", "(S)|forceescape", "(S)[I:I]", "(S)[I:]", "(S)[::-1]", "(S)[I]", "(S) + (S)", "(S) ~ (I)", "(F) ~ (L)", "(S) * 2", "(S) % 3", "'%s|%r' % (L|tuple)",
          "'%s %s' % (S, I)", "'%5.2f|%x|%+d|%e' % (F, 255, I, F)", "'%(a)s|%(b)5s' % {'a': S, 'b': I}", "(S).strip()", "(S).strip(s)", "(S).lstrip(s)", "(S).rstrip(s)", "(S).upper()", "(S).lower()", "(S).title()",
          "(S).capitalize()", "(S).swapcase()", "(S).casefold()", "(S).replace(s, s)", "(S).replace(s, s, I)", "(S).join(L|map('string'))", "(S).center(15)", "(S).center(15, '*')", "(S).ljust(12)", "(S).rjust(12, '.')",
          "(S).zfill(8)", "(S).expandtabs()", "(S).expandtabs(3)", "(S).removeprefix(s)", "(S).removesuffix(s)", "(S).format(S, I)", "(S).format(a=I)", "'{:>8}|{!r}|{:05d}'.format(S, S, I)", "'{0[0]}{1}'.format(L, F)",
          "'{:.3f}|{:e}|{:,}|{:%}|{:g}'.format(F, F, I, F, F)", "'{:x}|{:#b}|{:^9}|{:+}'.format(I, I, I, I)", "(L)|join", "(L)|join(s)", "(D)|tojson", "(L)|tojson", "(D)|tojson(indent=2)", "(L)|tojson(indent=1, sort_keys=true)",
          "(D)|tojson(separators=(',', ':'))", "(F)|tojson", "(I)|string", "(F)|string", "(L)|string", "(D)|string", "(L)|pprint", "(D)|pprint", "(I)|filesizeformat", "(I * 1000)|filesizeformat(true)", "(D)|xmlattr",
          "(D)|urlencode", "(S if B else S)", "(S).partition(s)[0]", "(S).rpartition(s)|last", "strftime_now('%d %b %Y %H:%M:%S %j %A %y %p %I %%')", "(S).encode()", "(S).encode('ascii', 'ignore')", "(S).translate({97: 'b', 98: none})",
          "'%s' % S", "S|format(S, I)", "(S)|attr('upper')()"],
    "I": ["0", "1", "2", "-1", "5", "num", "neg", "(S)|length", "(L)|length", "(L)|count", "(S).count(s)", "(S).find(s)", "(S).rfind(s)", "(S)|int", "(S)|int(I)", "(F)|int", "(I) + (I)", "(I) - (I)", "(I) * (I)",
          "(I) // 3", "(I) % 3", "(I) // -2", "(I) % -4", "(I) ** 2", "(I)|abs", "-(I)", "(L)|map('string')|map('length')|sum", "users|sum(attribute='age')", "(S)|wordcount", "(I if B else I)", "12345678901234567890 + (I)",
          "(I).bit_length()", "(I) * 99999999999", "(I)|round(-1)|int", "(L).index(1)", "(B) + (I)", "(I)|int(base=8)", "'0x1f'|int(0, 16)"],
    "F": ["0.5", "flt", "-2.5", "1e3", "2.675", "(I) / 4", "(F) * 3", "(F) + (I)", "(F)|round(1)", "(F)|round", "(F)|round(2, 'ceil')", "(F)|round(1, 'floor')", "(S)|float", "(S)|float(F)", "(I)|float", "(F)|abs", "(I) ** -1",
          "(F) // 2", "(F) % 0.7", "(F) ** 0.5", "(I) ** 0.5", "(F) - (F)", "1e16 * (F)", "1e-5 * (F)", "(I) / 3"],
    "L": ["words", "users", "nested", "[1, 2, 3]", "[I, S]", "[F, I, B]", "['b', 'a', 'C']", "range(4)", "range(I)|list", "(L)|list", "(L)|sort", "(L)|reverse|list", "(L)|unique|list", "(L)|first|list", "(L) + (L)",
          "(L)[I:I]", "(L)[::-1]", "(L)[1:]", "(L) * 2", "(S).split()", "(S).split(s)", "(S).split(s, I)", "(S).rsplit(s, 1)", "(S).splitlines()", "(S).splitlines(true)", "(S)|list", "(S).partition(s)", "(L)|map('string')|list",
          "(L)|select|list", "(L)|reject('none')|list", "(L)|select('string')|list", "(L)|batch(2)|list", "(L)|slice(2)|list", "(L)|batch(3, 'x')|list", "users|map(attribute='name')|list", "users|selectattr('age', 'gt', 10)|list",
          "users|groupby('age')", "users|groupby('age')|map('first')|list", "users|rejectattr('tags')|list", "users|sort(attribute='age,name', reverse=true)", "(D)|dictsort", "(D)|items|list", "(D).items()|list", "(D).keys()|list", "(D).values()|list",
          "(D)|list", "words|map('upper')|list", "words|map('replace', 'a', s)|list", "words|sort(case_sensitive=true)", "words|unique(true)|list", "(L if B else L)", "(D)|dictsort(by='value')", "(D)|dictsort(reverse=true)", "users|map(attribute='tags')|sum(start=[])",
          "messages|map(attribute='content')|list", "messages|map(attribute='x', default=S)|list", "(S).rsplit()", "words|map('length')|list", "words|map('first')|sort|list", "words|select('in', L)|list", "(S, I)", "(L)|slice(3, S)|list"],
    "D": ["obj", "users[0]", "{'a': I, 'b': S}", "{'z': L, 'a': none, 'M': F}", "dict(a=I, b=S)", "{S: I}", "dict(D|items)", "dict(D, q=B)", "messages[1]", "{I: S, F: B}", "{}", "(D).copy()", "{'k': {'n': D}}", "namespace(a=I)", "(D if B else D)"],
    "B": ["true", "false", "flag", "(I) > (I)", "(F) <= (I)", "(S) == (S)", "(S) < (S)", "s in (S)", "(I) in (L)", "s not in (D)", "(S) is string", "(L) is sequence", "(D) is mapping", "(I) is number", "(F) is float", "(I) is even", "(I) is odd",
          "(I) is divisibleby 3", "(S) is defined", "missing is undefined", "(L) is iterable", "(S) is lower", "(S) is upper", "(B) and (B)", "(B) or (B)", "not (B)", "(I) is integer", "(B) is true", "(B) is boolean", "nothing is none", "(S).startswith(s)",
          "(S).endswith((s, s))", "(S).isdigit()", "(S).isalpha()", "(S).isspace()", "(S).istitle()", "(S).isalnum()", "(S).isupper()", "(S).islower()", "(S).isidentifier()", "(S).isnumeric()", "(S).isprintable()", "(S).isascii()", "(L) == (L)", "(D) == (D)", "(L) < (L)", "(I) < (I) < (I)",
          "(S) is in (L)", "(S) is eq (S)", "(I) is ge (I)", "(S) is sameas (S)", "'upper' is filter", "s is test", "(S) is callable", "(F).is_integer()", "(S)|e is escaped"]}


class Generator:
    def __init__(self, seed, corpus):
        self.r = random.Random(seed)
        self.corpus = corpus

    def pick(self, items):
        return self.r.choice(items)

    def string(self):
        return ("'%s'" if self.r.random() < 0.7 else '"%s"') % self.pick(STRINGS)

    def atom(self):
        k = self.r.random()
        return self.string() if k < 0.3 else self.pick(NUMBERS) if k < 0.5 else self.pick(VALUES)

    def argument(self, depth):
        return self.expression(depth - 1) if self.r.random() < 0.3 else self.atom()

    def arguments(self, name, depth):
        if name in LIKELY and self.r.random() < 0.7:
            return self.pick(LIKELY[name])
        parts = [self.argument(depth) for _ in range(self.pick([0, 0, 1, 1, 1, 2, 2, 3]))]
        if name in KEYWORDS and self.r.random() < 0.4:
            parts.append(self.pick(KEYWORDS[name]) + "=" + self.argument(depth))
        if self.r.random() < 0.02:
            parts.append(self.pick(["*[1, 2]", "**{'a': 1}", "*words", "**obj"]))
        return ", ".join(parts)

    def index(self):
        k = lambda: self.pick(["", "", "0", "1", "-1", "2", "-2", "5", "none", "-9"])
        if self.r.random() < 0.5:
            return self.pick([f"[{k()}:{k()}]", f"[{k()}:{k()}:{k()}]", "[::-1]", "[1:]", "[:-1]"])
        return f"[{self.atom()}]"

    def expression(self, depth=3):
        if depth <= 0:
            return self.atom()
        if self.r.random() < 0.4:
            return self.typed(self.pick("SSSILLDBF"), depth)
        e = lambda: self.expression(depth - 1)
        k = self.r.random()
        if k < 0.12:
            return self.atom()
        if k < 0.40:
            name = self.pick(FILTERS)
            arguments = self.arguments(name, depth)
            return f"({e()})|{name}" + (f"({arguments})" if arguments or self.r.random() < 0.1 else "")
        if k < 0.52:
            name = self.pick(METHODS)
            return f"({e()}).{name}({self.arguments(name, depth)})"
        if k < 0.60:
            name = self.pick(TESTS)
            argument = self.pick(["", "", f"({self.argument(depth)})", f" {self.atom()}"])
            return f"({e()}) is {self.pick(['', 'not '])}{name}{argument}"
        if k < 0.76:
            operator = self.pick(["+", "-", "*", "/", "//", "%", "**", "~", "==", "!=", "<", "<=", ">", ">=", "and", "or", "in", "not in"])
            if operator == "**":
                return f"({e()}) ** {self.pick(['2', '3', '-1', '0.5', '0', '(-2)'])}"
            if operator == "*":
                return f"({e()}) * {self.pick(['2', '3', '-1', '0', '1.5', 'num', '0.1'])}"
            return f"{e()} {operator} {e()}" if self.r.random() < 0.4 else f"({e()}) {operator} ({e()})"
        if k < 0.84:
            return f"({e()}){self.index()}"
        if k < 0.88:
            return f"({e()}).{self.pick(['a', 'b', 'name', 'items', '0', 'x', '1', 'length', 'start', 'real'])}"
        if k < 0.92:
            return f"({e()} if {e()}" + self.pick(["", f" else {e()}"]) + ")"
        if k < 0.95:
            return self.pick(["not ", "-", "+"]) + f"({e()})"
        return self.pick([f"[{e()}, {e()}]", f"({e()}, {e()})", f"({e()},)", f"{{{self.string()}: {e()}}}", f"dict(q={e()})",
                          f"namespace(q={e()}).q", f"[{e()}]", f"range({self.pick(NUMBERS)})", f"strftime_now({self.string()})"])

    def typed(self, kind, depth):
        if kind == "s":
            return self.string()
        if depth <= 0:
            return {"S": self.string(), "I": self.pick(TYPED["I"][:7]), "F": self.pick(TYPED["F"][:5]), "L": self.pick(TYPED["L"][:4] + ["['b', 'a', 'C']"]),
                    "D": self.pick(["obj", "users[0]", "{'z': 1, 'a': none}", "{}"]), "B": self.pick(["true", "false", "flag"])}[kind]
        form = self.pick(TYPED[kind])
        return re.sub(r"(?<![\w'%])([SIFLDBs])(?![\w'])", lambda m: self.typed(m[1], depth - 1), form)

    def tag(self, text):
        begin, end = self.pick(["{%", "{%", "{%", "{%-", "{%+"]), self.pick(["%}", "%}", "%}", "-%}", "+%}"])
        return f"{begin} {text} {end}"

    def text(self):
        return self.pick(["", " ", "\n", "x", "\n  ", " t\n", "{", "%}", "\n\n", "{# c #}", "{#- c -#}", "\u00e9"])

    def statement(self, depth):
        s = lambda: self.statements(depth - 1)
        e = lambda: self.expression(2)
        k = self.r.random()
        if depth <= 0 or k < 0.3:
            return self.pick(["{{ %s }}", "{{- %s }}", "{{ %s -}}", "{{%s}}"]) % self.expression(3)
        if k < 0.5:
            target = self.pick(["i", "i", "i", "k, v", "(a, b)", "x", "i, j"])
            source = self.pick(["words", "users", "range(4)", "messages", "obj.items()", "nested", "'abc'", e(), "[]", "obj|items", "words recursive"])
            inner = s() + self.pick(["", "{{ loop.index }}", "{{ loop.last }}{{ loop.revindex }}", "{{ loop.previtem }}", "{{ loop.changed(i) }}", "{{ i }}", "{{ loop.cycle('a', 'b') }}",
                                     "{{ loop.nextitem is defined }}{{ loop.length }}", self.tag("break"), self.tag("continue"), "{% if loop.first %}" + self.tag("continue") + "{% endif %}", "{{ loop }}"])
            other = self.pick(["", "", "", self.tag("else") + s()])
            condition = self.pick(["", "", "", " if " + e(), " if i != 'apple'"])
            return self.tag(f"for {target} in {source}{condition}") + inner + other + self.tag("endfor")
        if k < 0.65:
            return self.tag(f"if {e()}") + s() + self.pick(["", self.tag(f"elif {e()}") + s()]) + self.pick(["", self.tag("else") + s()]) + self.tag("endif")
        if k < 0.78:
            return self.pick([self.tag(f"set x = {e()}"), self.tag(f"set x, y = {e()}, {e()}"), self.tag("set x") + s() + self.tag("endset"), self.tag(f"set ns = namespace(x={e()})") + self.tag(f"set ns.x = {e()}") + "{{ ns.x }}",
                              self.tag("set x | upper") + s() + self.tag("endset"), self.tag(f"set ns.z = {e()}")]) + self.pick(["", "{{ x }}", "{{ x }}{{ y }}"])
        if k < 0.88:
            body = s() + self.pick(["", "{{ caller() }}", "{{ varargs }}{{ kwargs }}", "{{ p }}{{ q }}"])
            name = self.pick(["m", "n"])
            call = self.pick([f"{{{{ {name}({e()}) }}}}", f"{{{{ {name}(1, 2, 3, z=4) }}}}", self.tag(f"call {name}({e()})") + s() + self.tag("endcall"), f"{{{{ {name}(q={e()}) }}}}",
                              self.tag(f"call(u, w=2) {name}()") + s() + self.tag("endcall"), f"{{{{ {name}.name }}}}{{{{ {name}.arguments }}}}"])
            return self.tag(f"macro {name}({self.pick(['', 'p', 'p, q=2', 'p=1, q=p', 'q'])})") + body + self.tag("endmacro") + call
        if k < 0.94:
            name = self.pick(FILTERS)
            arguments = self.arguments(name, 1)
            return self.tag(f"filter {name}" + (f"({arguments})" if arguments else "")) + s() + self.tag("endfilter")
        return self.pick([self.tag(f"with x = {e()}") + s() + "{{ x }}" + self.tag("endwith"), self.tag("generation") + s() + self.tag("endgeneration"), self.tag("raw") + "{{ x }} {% y" + self.tag("endraw"),
                          self.tag(f"block b{self.r.randrange(99)}") + s() + self.tag("endblock"), "{{ raise_exception(" + e() + ") }}", self.tag("autoescape true") + s() + self.tag("endautoescape"),
                          self.tag(f"print {e()}"), self.tag("do x"), self.tag("include 'x'"), "{{ self.b1() }}"])

    def statements(self, depth):
        return "".join(self.text() + self.statement(depth) for _ in range(self.pick([1, 1, 2, 3]))) + self.text()

    def mutation(self):
        template, context = self.pick(self.corpus)
        parts = TOKEN.findall(template)
        other = TOKEN.findall(self.pick(self.corpus)[0])
        inside = [i for i, p in enumerate(parts) if not p.isspace()] or [0]
        for _ in range(self.pick([1, 1, 1, 2, 3])):
            i, k = min(self.pick(inside), max(len(parts) - 1, 0)), self.r.random()
            if not parts or not other:
                break
            if k < 0.2:
                del parts[i]
            elif k < 0.45:
                parts[i] = self.pick(other)
            elif k < 0.6:
                parts.insert(i, self.pick(other))
            elif k < 0.7:
                j = self.r.randrange(len(parts))
                parts[i], parts[j] = parts[j], parts[i]
            elif k < 0.8:
                parts[i] = self.expression(1)
            elif k < 0.9:
                at, n = self.r.randrange(len(other)), self.r.randrange(1, 12)
                parts[i:i] = other[at:at + n]
            else:
                parts[i] = self.pick(["|" + self.pick(FILTERS), " is " + self.pick(TESTS), "." + self.pick(METHODS) + "()", "-%}", "{%-", "{{", "}}", "'", "#}", "(", ")", "[", "]", "=", ",", ":"])
        return "".join(parts), context

    def case(self):
        k = self.r.random()
        if k < 0.25:
            return "{{ " + self.typed(self.pick("SSSILLDBF"), self.pick([1, 2, 2, 3])) + " }}", CONTEXT
        if k < 0.40:
            return "{{ " + self.expression(self.pick([1, 2, 2, 3])) + " }}", CONTEXT
        return (self.statements(2), CONTEXT) if k < 0.65 else self.mutation()


def load_corpus(folder):
    corpus = []
    for path in (CASES, CONFORMANCE):
        if os.path.exists(path):
            corpus += [(c["template"], c["context"]) for c in json.load(open(path, encoding="utf-8"))]
    if os.path.isdir(folder):
        contexts = list(json.load(open(os.path.join(folder, "contexts.json"), encoding="utf-8"))["contexts"].values())
        for i, name in enumerate(sorted(n for n in os.listdir(folder) if n.endswith(".jinja"))):
            text = open(os.path.join(folder, name), encoding="utf-8", newline="").read()
            for j in range(3):
                context = dict(contexts[(i * 3 + j) % len(contexts)], bos_token="<s>", eos_token="</s>")
                corpus.append((text, context))
    return corpus


def run_random(args):
    generator = Generator(args.seed, load_corpus(args.folder))
    n_judged = n_errors = n_bad = 0
    left = args.n
    while left > 0:
        cases = [generator.case() for _ in range(min(left, 500))]
        cases = [c for c in cases if "random" not in c[0] and "lipsum(" not in c[0]]
        left -= 500
        for (template, context), answer in zip(cases, ours(args.program, cases)):
            expected = reference(template, context)
            if not is_judged(expected, answer):
                continue
            n_judged += 1
            n_errors += bool(expected.get("error"))
            if agrees(expected, answer):
                continue
            n_bad += 1
            if n_bad <= args.show:
                template = shrink(args.program, template, context)
                print(repr(template), "\n   jinja2:", reference(template, context), "\n   mlxcel:", ours(args.program, [(template, context)])[0], flush=True)
    print(f"{n_judged} cases judged ({n_errors} of them errors), {n_bad} differ")
    return n_bad > 0


def run_cases(args):
    cases = json.load(open(CASES, encoding="utf-8"))
    n_bad = 0
    answers = ours(args.program, [(c["template"], c["context"]) for c in cases])
    for case, answer in zip(cases, answers):
        expected = reference(case["template"], case["context"])
        for key in ("text", "error", "kind", "message"):
            if case.get(key) != expected.get(key) and not args.update:
                print(f"{case['id']}: {key} is {case.get(key)!r}, jinja2 says {expected.get(key)!r}")
                n_bad += 1
            case.pop(key, None)
        case.update(expected)
        if not agrees(expected, answer):
            print(f"{case['id']}: {case['template']!r}\n   jinja2: {expected}\n   mlxcel: {answer}")
            n_bad += 1
    if args.update:
        with open(CASES, "w", encoding="utf-8") as f:
            f.write("[\n" + ",\n".join(json.dumps(c, ensure_ascii=True) for c in cases) + "\n]\n")
    print(f"{len(cases)} cases, {n_bad} differ")
    return n_bad > 0


def run_speed(args):
    template = open(args.template, encoding="utf-8", newline="").read()
    context = json.load(open(args.context, encoding="utf-8"))

    def median(call):
        rounds = []
        for _ in range(25):
            start, n = time.perf_counter(), 0
            while time.perf_counter() - start < 0.02:
                call()
                n += 1
            rounds.append((time.perf_counter() - start) / n * 1e6)
        return sorted(rounds)[12]

    compiled = ENV.from_string(template)
    text = compiled.render(**context)
    same = ours(args.program, [(template, context)])[0].get("text") == text
    rendering = median(lambda: compiled.render(**context))
    print(f"jinja2 {jinja2.__version__}: compile {median(lambda: environment().from_string(template)):.0f} us, "
          f"render {rendering:.1f} us = {1e6 / rendering:.0f} a second; mlxcel gives {'the same' if same else 'ANOTHER'} text")
    return not same


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["cases", "random", "speed"])
    parser.add_argument("--update", action="store_true")
    parser.add_argument("-n", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", type=int, default=20)
    parser.add_argument("--folder", default=os.path.join(ROOT, "../shared/data/templates"))
    parser.add_argument("--template", default=os.path.join(ROOT, "tests/data/chat-example.jinja"))
    parser.add_argument("--context", default=os.path.join(ROOT, "tests/data/chat-example.json"))
    parser.add_argument("--program", default=os.path.join(ROOT, "build/release/mlxcel"))
    args = parser.parse_args()
    warnings.simplefilter("ignore")  # of Python about the code that jinja2 makes
    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
    signal.signal(signal.SIGALRM, out_of_time)
    if jinja2.__version__ != "3.1.6":
        print(f"note: jinja2 is {jinja2.__version__}, not 3.1.6", file=sys.stderr)
    sys.exit({"cases": run_cases, "random": run_random, "speed": run_speed}[args.what](args))


if __name__ == "__main__":
    main()
