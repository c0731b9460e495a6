# SPDX-License-Identifier: Apache-2.0
"""A server under test, TAP lines, and the OpenAI document's schemas."""
import json
import os
import subprocess
import tempfile
import time
import traceback
import urllib.error
import urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MODEL = "novels-24m-4bit"
DOCUMENT = "data/api/openai-openapi-reduced.json"


class Server:
    """mlxcel-server with the bundled model, a key and a folder for slots, on a free port."""

    def __init__(self, binary, key, *options):
        self.key = key
        self.folder = tempfile.TemporaryDirectory()
        self.log = tempfile.TemporaryFile("w+")
        command = [binary, "serve", "-m", os.path.join(ROOT, "models", MODEL), "--port", "0", "--metrics", "--api-key", key]
        command += ["--slot-save-path", self.folder.name, *options]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=self.log)
        self.url = self._wait(30)

    def _wait(self, seconds):
        until = time.monotonic() + seconds
        while time.monotonic() < until and self.process.poll() is None:
            self.log.seek(0)
            for line in self.log.read().splitlines():
                if "listening on " in line and self._healthy(line.split("listening on ")[1].strip()):
                    return line.split("listening on ")[1].strip()
            time.sleep(0.05)
        self.process.kill()
        self.log.seek(0)
        raise SystemExit("the server did not start: " + self.log.read())

    @staticmethod
    def _healthy(url):
        try:
            urllib.request.urlopen(url + "/health", timeout=5).close()
            return True
        except OSError:
            return False

    def ask(self, method, path, body=None):
        """Status, and the answer: JSON where it is JSON, else text. For what a client library hides."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, method=method,
                                         headers={"Authorization": "Bearer " + self.key, "Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                status, text = answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            status, text = error.code, error.read().decode()
        try:
            return status, json.loads(text)
        except ValueError:
            return status, text

    def n_busy(self):
        return sum(slot["is_processing"] for slot in self.ask("GET", "/slots")[1])

    def stop(self):
        self.process.terminate()
        try:
            return self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return -1


class Tap:
    """Runs functions as cases; the functions assert."""

    def __init__(self):
        self.passed = self.failed = self.skipped = 0

    def run(self, module, server):
        for name, function in list(vars(module).items()):
            if not name.startswith("test_"):
                continue
            title = module.__name__ + ": " + name[5:].replace("_", " ")
            try:
                function(server)
            except Skip as reason:
                self.skip(title, reason)
            except Exception:  # pylint: disable=broad-except
                self.failed += 1
                print("not ok - " + title)
                print("".join("# " + line + "\n" for line in traceback.format_exc(limit=-4).splitlines()), end="")
            else:
                self.passed += 1
                print("ok - " + title, flush=True)

    def skip(self, title, reason):
        self.skipped += 1
        print("ok - %s # SKIP %s" % (title, reason), flush=True)

    def done(self):
        print("1..%d" % (self.passed + self.failed + self.skipped))
        print("%d passed, %d failed, %d skipped" % (self.passed, self.failed, self.skipped))
        return 1 if self.failed else 0


class Skip(Exception):
    pass


def shared(path):
    folder = os.environ.get("MLXCEL_SHARED") or os.path.join(ROOT, "../shared")
    full = os.path.join(folder, path)
    return full if os.path.exists(full) else None


def with_null(schema):
    """The document says `nullable: true` in some places, which JSON Schema does not know."""
    if isinstance(schema, list):
        return [with_null(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {key: with_null(value) for key, value in schema.items()}
    return {"anyOf": [inner, {"type": "null"}]} if schema.get("nullable") is True else inner


class Document:
    """Checks values against components of the OpenAI document."""

    def __init__(self):
        self.path = shared(DOCUMENT)
        self.n_checked = 0
        if self.path:
            import jsonschema  # only where there is something to check
            with open(self.path, encoding="utf-8") as file:
                self.components = with_null(json.load(file)["components"])
            self.library = jsonschema

    def check(self, name, value):
        if not self.path:
            return
        schema = {"$ref": "#/components/schemas/" + name, "components": self.components}
        errors = list(self.library.Draft202012Validator(schema).iter_errors(value))
        self.n_checked += 1
        if errors:
            best = self.library.exceptions.best_match(errors)
            raise AssertionError("%s: at %s: %s" % (name, best.json_path, best.message[:400]))


DOCUMENT_SCHEMAS = Document()


def check(name, value):
    DOCUMENT_SCHEMAS.check(name, value)
