#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Client libraries against a server of this build:   tests/clients/run.py [BINARY [MODULE...]]

Each file with_NAME.py needs a library from PyPI and is skipped where it is not installed. Prints TAP; the last line is
"N passed, N failed, N skipped". scripts/check-clients.sh makes the environment."""
import importlib
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import support  # noqa: E402  (after the path)

ALWAYS = ["with_openai", "with_anthropic", "with_ollama"]


def main():
    binary = sys.argv[1] if len(sys.argv) > 1 else os.path.join(support.ROOT, "build/release/mlxcel")
    tap = support.Tap()
    server = support.Server(binary, "sk-test")
    for name in sys.argv[2:] or ALWAYS:
        try:
            module = importlib.import_module(name)
        except ImportError as error:
            tap.skip(name, "%s is not installed" % error.name)
            continue
        tap.run(module, server)
    if not support.DOCUMENT_SCHEMAS.path:
        tap.skip("answers against OpenAI's document", "the shared reference folder is not there")
    else:
        print("# %d values were checked against OpenAI's document" % support.DOCUMENT_SCHEMAS.n_checked)
    server.log.seek(0)
    status = server.stop()
    tap.passed += status == 0
    tap.failed += status != 0
    print(("ok" if status == 0 else "not ok") + " - the server ends well")
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
