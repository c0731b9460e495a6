# SPDX-License-Identifier: Apache-2.0
"""A server, a browser and TAP lines for check.py."""
import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAM = os.environ.get("MLXCEL", os.path.join(ROOT, "build/release/mlxcel"))
CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")

n_checks = 0
n_failed = 0


def check(holds, name, *details):
    global n_checks, n_failed
    n_checks += 1
    print(("ok" if holds else "not ok"), n_checks, "-", name, flush=True)
    if not holds:
        n_failed += 1
        for detail in details:
            print("#  ", str(detail).replace("\n", "\n#   ")[:2000], flush=True)
    return holds


def done():
    print(f"1..{n_checks}")
    print(f"{n_checks - n_failed} passed, {n_failed} failed, 0 skipped")
    return 1 if n_failed else 0


@contextlib.contextmanager
def server(*options):
    """A server of the bundled model on a free port; gives its address."""
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen([PROGRAM, "serve", "--port", "0", "--threads", "1", *options], stdout=log, stderr=log)
        try:
            deadline = time.time() + 60
            address = None
            while not address:
                log.seek(0)
                address = re.search(r"listening on (http://\S+)", log.read())
                if process.poll() is not None or time.time() > deadline:
                    sys.exit("check.py: the server does not start")
                time.sleep(0.05)
            yield address[1]
        finally:
            process.terminate()
            process.wait(20)


class Visit:
    """One page in a browser context of its own, and what happened on it."""

    def __init__(self, browser, address, **context):
        self.address = address
        self.context = browser.new_context(**{"viewport": {"width": 1280, "height": 800}, "locale": "en-US", **context})
        self.page = self.context.new_page()
        self.page.set_default_timeout(20000)
        self.violations, self.errors, self.foreign, self.bodies = [], [], [], []
        self.page.on("console", self.on_console)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.errors.append("dialog: " + dialog.message), dialog.dismiss()))
        self.page.on("request", self.on_request)
        self.page.goto(address + "/")
        self.until("document.querySelector('#model').options.length > 0")

    def until(self, expression, timeout_s=30):
        """Waits for an expression to be true. (Playwright's own wait needs eval, which the page forbids.)"""
        deadline = time.time() + timeout_s
        while not self.page.evaluate(expression):
            if time.time() > deadline:
                raise TimeoutError(expression)
            time.sleep(0.02)

    def on_console(self, message):
        if re.search("content security policy|trusted ?type", message.text, re.I):
            self.violations.append(message.text)
        elif message.type == "error" and "Failed to load resource" not in message.text:
            self.errors.append(message.text)

    def on_request(self, request):
        if not request.url.startswith((self.address + "/", "data:", "blob:")):
            self.foreign.append(request.url)
        if request.method == "POST" and request.url.endswith("/v1/chat/completions"):
            self.bodies.append(json.loads(request.post_data))

    def send(self, text):
        self.page.fill("#message", text)
        self.page.press("#message", "Enter")

    def wait_answer(self, timeout=60000):
        self.page.wait_for_selector("#stop", state="hidden", timeout=timeout)

    def ask(self, text):
        self.send(text)
        self.wait_answer()

    def answers(self):
        return self.page.locator(".message.assistant > .markdown").all_inner_texts()

    def set(self, **values):
        """Settings as a person types them."""
        self.page.click("#open-settings")
        for name, value in values.items():
            self.page.fill("#system" if name == "system" else "#set-" + name, str(value))
        self.page.press("#settings", "Escape")
        self.page.wait_for_selector("#settings", state="hidden")

    def answer_with(self, content, reasoning=None, status=None, events=None):
        """From now on the server's place is taken by this answer."""
        chunks = [{"choices": [{"index": 0, "delta": {"reasoning_content": reasoning}}]}] if reasoning else []
        pieces = [content[i:i + 7] for i in range(0, len(content), 7)]
        chunks += [{"choices": [{"index": 0, "delta": {"content": piece}}]} for piece in pieces]
        chunks += [{"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}]
        chunks += [{"choices": [], "usage": {"prompt_tokens": 1234, "completion_tokens": 56, "prompt_tokens_details":
                    {"cached_tokens": 1000}}, "timings": {"predicted_per_second": 41.25}}]
        body = "".join("data: " + json.dumps(c) + "\n\n" for c in (events or chunks)) + ("" if events else "data: [DONE]\n\n")
        headers = {"content-type": "text/event-stream"}
        self.page.unroute_all()
        self.page.route("**/v1/chat/completions", lambda route: route.fulfill(status=200, headers=headers, body=body))

    def close(self, name):
        check(not self.violations, f"{name}: no violation of the content security policy", *self.violations)
        check(not self.errors, f"{name}: no error in the console", *self.errors)
        check(not self.foreign, f"{name}: nothing is fetched from elsewhere", *self.foreign)
        self.context.close()
