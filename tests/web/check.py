#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The web page in a real Chromium, driven by playwright; scripts/check-web.sh prepares both and runs this.

    tests/web/check.py [--pictures DIR]     prints TAP; with DIR also takes the pictures of docs/web.md"""
import argparse
import json
import os
import time
import urllib.request

from playwright.sync_api import sync_playwright

from harness import CHROMIUM, Visit, check, done, server

HERE = os.path.dirname(os.path.abspath(__file__))


def get_json(address):
    return json.load(urllib.request.urlopen(address, timeout=10))


def test_chat(browser, address):
    v = Visit(browser, address)
    page = v.page
    check(page.input_value("#model") == "novels-24m-4bit", "the picker names the model")
    check("1,024 tokens" in page.inner_text("#facts"), "the start page tells the context", page.inner_text("#facts"))
    check(page.evaluate("document.activeElement.id") == "message", "one can type at once")

    v.set(max_tokens=150, seed=7, temperature=0.8)
    v.send("Tell me about the sea")
    lengths = set()
    while page.is_visible("#stop"):
        lengths.add(len(page.locator(".message.assistant").inner_text()))
    answer = v.answers()[0]
    check(len(lengths) > 3 and len(answer) > 100, "the answer comes piece by piece", lengths)
    stats = page.inner_text(".message.assistant .stats")
    check("tokens/s" in stats and "150 tokens" in stats and "prompt " in stats and "Cut at the token limit" in stats,
          "its rate and tokens are shown", stats)
    check("of 1,024 tokens" in page.inner_text("#context"), "the context in use is shown")
    body = v.bodies[0]
    check(body["max_tokens"] == 150 and body["seed"] == 7 and body["temperature"] == 0.8 and "top_p" not in body and
          body["stream"] is True and body["stream_options"] == {"include_usage": True} and
          body["messages"] == [{"role": "user", "content": "Tell me about the sea"}], "what is set is sent, and only that", body)

    page.click("[aria-label='Go on from here']")
    v.wait_answer()
    check(v.answers()[0].startswith(answer.rstrip()[:100]) and len(v.answers()[0]) > len(answer) and
          v.bodies[1]["continue_final_message"] is True, "an answer that was cut goes on")
    first = v.answers()[0]

    v.set(seed=8)
    page.click("[aria-label='Answer again']")
    v.wait_answer()
    check(v.answers()[0] != first and "2/2" in page.inner_text(".variants") and v.bodies[2]["seed"] == 8 and
          v.bodies[2]["messages"] == body["messages"], "again gives another answer")
    second = v.answers()[0]
    page.click("[aria-label='Earlier answer']")
    check(v.answers()[0] == first, "the first one is kept")
    page.click("[aria-label='Later answer']")
    check(v.answers()[0] == second, "and one can go back")

    v.ask("And the ships?")
    check([m["role"] for m in v.bodies[3]["messages"]] == ["user", "assistant", "user"] and
          v.bodies[3]["messages"][1]["content"].split() == second.split(), "a conversation is sent with the chosen answer")
    page.hover(".message.user >> nth=0")
    page.click(".message.user >> nth=0 >> [aria-label='Edit message']")
    check("will be removed" in page.inner_text(".editor"), "the editor says what goes")
    page.fill(".editor textarea", "Tell me about the moon")
    page.press(".editor textarea", "Enter")
    v.wait_answer()
    check(page.locator(".message").count() == 2 and v.bodies[4]["messages"] == [{"role": "user", "content": "Tell me about the moon"}],
          "an edited message is answered anew")
    check(page.inner_text("#chats .current .chat") == "Tell me about the moon", "and names the conversation")
    page.click(".message.assistant [aria-label='Edit answer']")
    page.fill(".editor textarea", "It is **round**.")
    page.click("text=Save")
    check(page.inner_text(".message.assistant strong") == "round", "answers can be edited too")

    page.reload()
    page.wait_for_selector(".message.assistant strong")
    check(page.locator(".message").count() == 2 and "moon" in page.inner_text(".message.user"), "reloading keeps the conversation")
    v.close("chat")


def test_stop(browser, address):
    v = Visit(browser, address)
    page = v.page
    v.set(max_tokens=900, temperature=1, system="You are a storyteller.")
    v.send("A long story about a king and his three sons")
    v.until("document.querySelector('.message.assistant > .markdown').innerText.length > 40")
    page.keyboard.press("Escape")
    v.wait_answer(3000)
    text = v.answers()[0]
    check("Stopped" in page.inner_text(".stats") and len(text) > 40, "Esc stops", page.inner_text(".stats"))
    deadline = time.time() + 5
    while any(slot.get("is_processing") for slot in get_json(address + "/slots")) and time.time() < deadline:
        time.sleep(0.05)
    check(not any(slot.get("is_processing") for slot in get_json(address + "/slots")), "the server stops too")
    check(v.bodies[0]["messages"][0] == {"role": "system", "content": "You are a storyteller."}, "the system prompt is sent")

    page.click("#new-chat")
    v.send("Another one")
    page.wait_for_selector("#stop")
    page.click("#chats [data-chat] >> nth=1")
    check(page.is_hidden("#stop") and v.answers() == [text], "other conversations can be read meanwhile")
    page.click("#chats [data-chat] >> nth=0")
    page.wait_for_selector("#stop")
    page.click("#stop")
    v.wait_answer(3000)
    check("Stopped" in page.inner_text(".stats"), "the button stops")

    page.click("#new-chat")
    v.send("A third")
    v.until("document.querySelector('.message.assistant > .markdown').innerText.length > 40")
    page.reload()
    page.wait_for_selector(".message.assistant")
    check(page.is_hidden("#stop") and len(v.answers()[0]) > 40, "reloading in the middle keeps what was there")
    v.close("stop")


def test_list(browser, address):
    v = Visit(browser, address)
    page = v.page
    v.answer_with("Yes.")
    for text in ("Alpha", "Beta", "Gamma <b>bold</b>"):
        v.ask(text)
        page.click("#new-chat")
    titles = page.locator("#chats .chat").all_inner_texts()
    check(titles == ["Gamma <b>bold</b>", "Beta", "Alpha"], "conversations are listed, the newest first", titles)
    page.fill("#search", "bet")
    check(page.locator("#chats .chat").all_inner_texts() == ["Beta"], "and can be searched")
    page.fill("#search", "")
    page.click("text=Alpha")
    page.click("[aria-label='Rename “Alpha”']")
    page.fill(".rename", "First one")
    page.press(".rename", "Enter")
    check("First one" in page.locator("#chats .chat").all_inner_texts(), "renamed")
    page.hover("text=Beta")
    page.click("[aria-label='Delete “Beta”']")
    page.click("#confirm .main-button")
    v.until("document.querySelectorAll('#chats .chat').length === 2")

    page.click("#open-settings")
    page.fill("#key", "sk-not-for-others")
    page.press("#key", "Tab")
    with page.expect_download() as download:
        page.click("#export")
    text = open(download.value.path(), encoding="utf-8").read()
    exported = json.loads(text)
    check(sorted(c["title"] for c in exported["chats"]) == ["First one", "Gamma <b>bold</b>"] and "sk-not" not in text,
          "exported, without the key")
    page.click("#delete-all")
    page.click("#confirm .main-button")
    page.wait_for_selector("#chats .none")
    check(page.evaluate("Object.keys(localStorage).filter((k) => k.startsWith('mlxcel.chat.')).length") == 0, "all deleted")
    page.click("#open-settings")
    page.set_input_files("#file", download.value.path())
    page.wait_for_selector("#toast.shown")
    check("2 conversations" in page.inner_text("#toast"), "imported", page.inner_text("#toast"))
    saved = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi."}]
    for name, data in (("terminal.json", saved), ("broken.json", None), ("wrong.json", {"a": 1})):
        content = (json.dumps(data) if data else "{").encode()
        page.set_input_files("#file", {"name": name, "mimeType": "application/json", "buffer": content})
        page.wait_for_timeout(150)
        expected = {"terminal.json": "One conversation", "broken.json": "no JSON", "wrong.json": "no conversations"}[name]
        check(expected in page.inner_text("#toast"), f"a file {name}: {expected}", page.inner_text("#toast"))
    page.press("#settings", "Escape")
    page.click("text=terminal")
    check(v.answers() == ["Hi."], "what mlxcel run saved can be read")
    v.ask("More")
    check(v.bodies[-1]["messages"][:3] == saved, "and goes on", v.bodies[-1]["messages"])
    v.close("list")


def test_markdown(browser, address):
    v = Visit(browser, address)
    page = v.page
    v.context.grant_permissions(["clipboard-read", "clipboard-write"])
    v.answer_with(open(os.path.join(HERE, "elements.md"), encoding="utf-8").read(), reasoning="First, *consider* it.")
    v.ask("Show me")
    box = ".message.assistant > .markdown "

    def texts(selector):
        return page.locator(box + selector).all_inner_texts()
    check(texts("h3") == ["Heading one", "Underlined"] and texts("h4") == ["Heading two"], "headings", texts("h3"))
    check(texts("p >> nth=0 >> strong") == ["bold", "both"] and texts("p >> nth=0 >> em") == ["slanted", "both"] and texts("del") == ["struck"],
          "emphasis", texts("em"), texts("strong"))
    check(texts("p >> nth=0 >> code") == ["code *as is*", "a`b"], "code in a line", texts("p >> nth=0 >> code"))
    check("snake_case_name 2 * 3 * 4" in texts("p >> nth=1")[0], "no emphasis inside of words", texts("p >> nth=1"))
    check(texts("> ul > li")[0].startswith("one") and texts("> ul > li > ul > li") == ["inner", "inner two"], "lists in lists")
    check(page.get_attribute(box + "> ol", "start") == "3" and texts("> ol > li pre code") == ["in a list"], "numbered lists go on, with code", texts("> ol > li pre code"))
    check(page.locator(box + "li.task input").evaluate_all("(l) => l.map((i) => i.checked)") == [True, False], "tasks")
    check(texts("th") == ["Name", "Count"] and texts("td") == ["a | b", "1", "c", "22"] and
          page.locator(box + "td.align-right").count() == 2, "tables", texts("td"))
    check(texts("> blockquote > p") == ["Quoted\nlines"] and texts("blockquote blockquote") == ["deeper"], "quotes", texts("blockquote > p"))
    links = page.locator(box + "a").evaluate_all("(l) => l.map((a) => [a.textContent, a.getAttribute('href')])")
    check(links == [["named", "https://example.com/a_(b)"], ["https://example.com/bare?x=1", "https://example.com/bare?x=1"],
                    ["https://example.com/angle", "https://example.com/angle"], ["picture", "https://example.com/p.png"]], "links", links)
    check(all(page.locator(box + "a").evaluate_all("(l) => l.map((a) => a.rel.includes('noopener') && a.target === '_blank')")),
          "links open elsewhere and tell nothing")
    check(page.locator(box + "hr").count() == 1, "a rule")
    code = page.locator(box + "> figure pre").first
    check(code.inner_text() == "def add(a, b):\n\t# sums\n\treturn a + b  # <b>\n".rstrip("\n"), "code keeps its blanks", repr(code.inner_text()))
    kinds = code.locator("span").evaluate_all("(l) => l.map((s) => [s.className, s.textContent])")
    check(["t-word", "def"] in kinds and ["t-call", "add"] in kinds and ["t-comment", "# sums"] in kinds, "and is coloured", kinds)
    page.locator(box + "> figure [aria-label='Copy code']").first.click()
    copied = page.evaluate("navigator.clipboard.readText()")
    check(copied == "def add(a, b):\n\t# sums\n\treturn a + b  # <b>", "the button copies it", repr(copied))
    check(texts(".math") == ["\\(a_1 * b_2\\)"], "formulas stay as they are", texts(".math"))
    check(not page.locator(".reasoning .markdown").is_visible(), "reasoning is folded")
    page.click(".reasoning summary")
    check(page.locator(".reasoning .markdown em").inner_text() == "consider", "and unfolds")
    stats = page.inner_text(".stats")
    check(stats == "41.3 tokens/s · 56 tokens · prompt 1,234 (1,000 cached)", "the server's figures", stats)
    v.close("markdown")


HOSTILE = """<script>window.hacked = 1; alert(1)</script>
<img src=x onerror="window.hacked = 2"> <svg onload="window.hacked = 3"><a href="javascript:window.hacked=4">x</a>
[click](javascript:window.hacked=5) [click]( javascript:window.hacked=5) [c](JaVaScRiPt:alert(1)) [d](data:text/html,<script>alert(1)</script>)
[e](vbscript:x) ![f](javascript:alert(1)) ![g](data:image/svg+xml;base64,PHN2Zz4=) <javascript:alert(1)> [h](&#106;avascript:alert(1))
[i](java\tscript:alert(1)) [j](\x01javascript:alert(1)) ![tracker](https://evil.example/pixel.png)

```html" onload="window.hacked = 6
</code></pre><script>window.hacked = 7</script>
```

| <img src=x onerror=window.hacked=8> | <script>window.hacked = 9</script> |
|---|---|
| <iframe src="javascript:window.hacked=10"> | <style>*{display:none}</style> |

# <script>window.hacked = 11</script>
> <object data="javascript:window.hacked=12">
- <details open ontoggle=window.hacked=13>
"""


def test_hostile(browser, address):
    v = Visit(browser, address)
    page = v.page
    v.answer_with(HOSTILE, reasoning=HOSTILE)
    v.ask(HOSTILE)
    page.click(".reasoning summary")
    page.wait_for_timeout(300)
    check(page.evaluate("window.hacked") is None, "nothing of a hostile message runs")
    found = page.evaluate("""[...document.querySelectorAll('#messages *')].filter((e) =>
        ['SCRIPT', 'IFRAME', 'OBJECT', 'STYLE', 'IMG', 'EMBED', 'LINK', 'BASE', 'FORM'].includes(e.tagName) ||
        [...e.attributes].some((a) => a.name.startsWith('on') || a.name === 'style' || a.name === 'srcdoc') ||
        (e.tagName === 'A' && !/^(https?|mailto):/.test(e.href))).map((e) => e.outerHTML.slice(0, 200))""")
    check(found == [], "and becomes no element that could", *found)
    check("<script>window.hacked = 1; alert(1)</script>" in page.inner_text(".message.user .bubble") and
          "<script>window.hacked = 1; alert(1)</script>" in v.answers()[0] and "onerror=window.hacked=8" in v.answers()[0],
          "it is shown as it was written")
    check("<script>" in page.inner_text("#chats .current .chat"), "in the list too")
    page.reload()
    page.wait_for_selector(".message.assistant")
    check(page.evaluate("window.hacked") is None, "nor after a reload")
    times = page.evaluate("""async () => {
        const { renderMarkdown } = await import('./markdown.js'), { highlight } = await import('./highlight.js'), out = {};
        const n = 60000, r = (s) => s.repeat(Math.ceil(n / s.length)).slice(0, n);
        const cases = { stars: r('*'), pairs: r('*a **a '), open: r('**a'), under: r('_a '), brackets: r('['), links: r('[a]('), quotes: r('>'),
            ticks: r('` `` '), more: r('`a``b```c'), lists: r('- '), deep: Array.from({ length: 400 }, (_, i) => ' '.repeat(2 * i) + '- a').join('\\n'),
            pipes: r('|') + '\\n' + r('|-'), rows: r('| a | b |\\n|---|---|\\n'), blanks: '[a](' + r(' ') + 'x', divider: 'a | b\\n-' + r(' ') + 'x',
            heading: '# a' + r(' ') + 'x', hashes: '# ' + r('# '), fence: '```' + r(' ') + '`', urls: r('http://a.'), dots: 'http://a' + r('.') + 'b',
            strikes: r('~~a ~~~'), maths: r('\\\\('), dollars: r('$$'), slashes: r('\\\\'), angles: r('<http://'), images: r('![a](b) '), nested: r('**[*a* '),
            numbers: r('1. '), mixed: r('> - 1. # '), lines: r('a\\n'), setext: r('a\\n---\\n'), both: r('***a** b*'), string: '```js\\n' + r('"a') + '\\n```',
            comment: '```c\\n' + r('/*') + '\\n```', markup: '```html\\n' + r('<a "') + '\\n```', lone: '\\ud800' + r('\\udfff') };
        for (const [name, text] of Object.entries(cases)) {
            const element = document.createElement('div'), began = performance.now();
            renderMarkdown(element, text);
            const took = performance.now() - began, depth = (e) => { let d = 0, most = 0; const walk = document.createTreeWalker(e, 1);
                while (walk.nextNode()) { d = 0; for (let p = walk.currentNode; p !== e; p = p.parentNode) d++; most = Math.max(most, d); } return most; };
            out[name] = [Math.round(took), element.childNodes.length ? depth(element) : 0];
        }
        return out;
    }""")
    slow = {name: t for name, t in times.items() if t[0] > 1500 or t[1] > 150}
    check(not slow, "no text of 60 KB makes rendering slow or deep", slow)
    wrong = page.evaluate("""async () => {
        const { renderMarkdown } = await import('./markdown.js');
        const parts = ['*', '**', '_', '`', '```\\n', '~~', '[', '](', ')', '![', '- ', '1. ', '> ', '# ', '| ', '|---|\\n', '\\n', '\\n\\n', '  ', '    ',
            'a', 'word ', 'https://a.b/c ', '<', '>', '\\\\', '$$', '\\t', '---\\n', '===\\n', '- [x] ', '\\u00e9', '\\ud83d\\ude00', 'a | b\\n-|-\\n'];
        let seed = 1;
        const next = (n) => (seed = (seed * 1103515245 + 12345) % 2147483648) % n, wrong = [];
        for (let i = 0; i < 1500; i++) {
            let text = '';
            const growing = document.createElement('div'), whole = document.createElement('div'), n = 3 + next(30);
            for (let j = 0; j < n; j++) {
                text += parts[(next(1 << 20) >> 8) % parts.length];
                renderMarkdown(growing, text);
            }
            renderMarkdown(whole, text);
            if (whole.innerHTML !== growing.innerHTML) wrong.push(text);
        }
        return wrong;
    }""")
    check(wrong == [], "an answer that grew looks like one that came at once", *[repr(w) for w in wrong[:5]])
    v.close("hostile")


def test_errors(browser, address):
    v = Visit(browser, address)
    page = v.page
    v.ask("word " * 3000)
    error = page.inner_text(".error")
    check("1024" in error and "\n" not in error, "a prompt that is too long: one line with the reason", error)
    check(page.is_visible("[aria-label='Answer again']"), "which can be tried again")
    page.click("#new-chat")
    v.context.set_offline(True)
    v.ask("Hello?")
    check("cannot be reached" in page.inner_text(".error"), "a server that is gone", page.inner_text(".error"))
    v.context.set_offline(False)
    v.set(max_tokens=5)
    page.click("[aria-label='Answer again']")
    v.wait_answer()
    check(page.is_hidden(".error") and v.answers()[0] and page.locator(".variants").count() == 0, "trying again takes its place")
    page.click("#new-chat")
    v.answer_with("", events=[{"choices": [{"delta": {"content": "Half"}}]}, {"error": {"message": "the engine is dead", "code": 500}}])
    v.ask("x")
    check("the engine is dead" in page.inner_text(".error") and v.answers() == ["Half"], "an error inside of a stream")
    page.click("#new-chat")
    v.answer_with("", events=[{"choices": [{"delta": {"content": "Half"}}]}])
    v.ask("x")
    check("broke" in page.inner_text(".error") and v.answers() == ["Half"], "a stream that breaks off", page.inner_text(".error"))
    page.unroute_all()
    page.route("**/v1/chat/completions", lambda r: r.fulfill(status=502, body="<h1>Bad gateway</h1>"))
    page.click("[aria-label='Answer again']")
    v.wait_answer()
    check("status 502" in page.inner_text(".error"), "an answer that is no JSON", page.inner_text(".error"))

    page.unroute_all()
    page.click("#open-settings")
    for name, wrong in (("top_p", "1.5"), ("top_k", "2.5"), ("temperature", "hot"), ("seed", "-4")):
        page.fill("#set-" + name, wrong)
    check(page.locator("#numbers [aria-invalid=true]").count() == 4 and "between 0 and 1" in page.inner_text("#set-top_p-hint"),
          "settings that cannot be are marked")
    for name, right in (("top_p", "0.9"), ("min_p", "0,1"), ("repetition_penalty", "1.1"), ("top_k", "20")):
        page.fill("#set-" + name, right)
    page.press("#settings", "Escape")
    v.ask("Now")
    sent = {k: v.bodies[-1].get(k) for k in ("temperature", "top_p", "top_k", "min_p", "repetition_penalty", "seed")}
    check(sent == {"temperature": None, "top_p": 0.9, "top_k": 20, "min_p": 0.1, "repetition_penalty": 1.1, "seed": None} and
          page.locator(".error:visible").count() == 1, "and not sent", sent)

    page.evaluate("""() => { try { for (let i = 0, s = 'x'.repeat(1 << 20); ; i++) localStorage.setItem('fill' + i, s); } catch (e) {}
        try { for (let i = 0, s = 'x'.repeat(100); ; i++) localStorage.setItem('rest' + i, s); } catch (e) {} }""")
    page.click("#new-chat")
    v.ask("Is there room? " + "y" * 400)
    check("storage is full" in page.inner_text("#toast") and v.answers()[0], "a full storage is told, and the page goes on")
    page.evaluate("localStorage.setItem('mlxcel.settings', '{'), localStorage.removeItem('fill0'), localStorage.setItem('mlxcel.chat.bad', '{\"messages\":[1,null,{\"role\":3}]')")
    page.reload()
    page.wait_for_selector("#message")
    v.ask("Still there?")
    check(v.answers()[0] != "", "broken storage does not break the page")
    v.close("errors")


def test_key(browser):
    with server("--api-key", "sk-right") as address:
        v = Visit(browser, address)
        page = v.page
        page.wait_for_selector("#ask-key[open]")
        page.fill("#asked-key", "sk-wrong")
        page.press("#asked-key", "Enter")
        v.until("document.querySelector('#notice').textContent.includes('not valid')")
        page.wait_for_selector("#ask-key[open]")
        check("not valid" in page.inner_text("#ask-key-detail"), "a wrong key: it is asked for again, and why")
        page.click("#ask-key-no")
        v.ask("Hello")
        check("not valid" in page.inner_text(".error"), "a wrong key: the reason is shown", page.inner_text(".error"))
        page.wait_for_selector("#ask-key[open]")
        page.fill("#asked-key", "sk-right")
        page.click("#ask-key .main-button")
        v.until("document.querySelector('.message.assistant > .markdown').innerText.length > 10")
        page.keyboard.press("Escape")
        v.wait_answer()
        check(page.input_value("#model") == "novels-24m-4bit", "the right one: the message is answered and the model known")
        page.reload()
        v.until("document.querySelector('#model').value === 'novels-24m-4bit'")
        check(page.locator("#ask-key[open]").count() == 0, "the key is kept")
        v.close("key")


def test_keyboard(browser, address):
    v = Visit(browser, address)
    page, keys = v.page, v.page.keyboard
    v.answer_with("Fine.")
    keys.type("One")
    keys.press("Shift+Enter")
    keys.type("Two")
    check(page.input_value("#message") == "One\nTwo", "Shift+Enter begins a line")
    keys.press("Enter")
    page.wait_for_selector(".stats:has-text('tokens')")
    check(v.bodies[0]["messages"][0]["content"] == "One\nTwo", "Enter sends")
    keys.press("ArrowUp")
    check(page.locator(".editor textarea").count() == 1, "the up arrow edits the last message")
    keys.press("Escape")
    check(page.locator(".editor").count() == 0 and page.evaluate("document.activeElement.id") == "message", "Esc gives it up")
    keys.press("Control+k")
    check(page.locator(".message").count() == 0, "Ctrl+K begins a chat")
    keys.press("Alt+ArrowDown")
    check(page.locator(".message").count() == 2, "Alt+arrow goes to another")
    keys.press("Control+,")
    check(page.evaluate("document.querySelector('#settings').open"), "Ctrl+comma opens the settings")
    keys.press("Escape")
    check(not page.evaluate("document.querySelector('#settings').open"), "Esc closes them")
    keys.press("Control+b")
    check(page.is_hidden("#sidebar"), "Ctrl+B hides the list")
    keys.press("Control+b")
    check(page.is_visible("#sidebar"), "and shows it")
    page.evaluate("document.activeElement.blur()")
    keys.press("/")
    check(page.evaluate("document.activeElement.id") == "message" and page.input_value("#message") == "", "/ goes to the field")
    reached = set()
    page.reload()
    page.wait_for_selector(".message.assistant .foot button")
    page.evaluate("document.activeElement.blur()")
    for _ in range(40):
        keys.press("Tab")
        reached.add(page.evaluate("(document.activeElement.id || document.activeElement.getAttribute('aria-label') || '')"))
    expected = {"new-chat", "search", "theme", "open-settings", "message", "Copy answer", "Edit message", "Answer again", "sidebar-close"}
    check(expected <= reached, "Tab reaches everything", expected - reached)
    nameless = page.evaluate("""[...document.querySelectorAll('button, input, textarea, select, a')].filter((e) =>
        !(e.getAttribute('aria-label') || e.textContent.trim() || (e.labels && e.labels.length) || e.value)).map((e) => e.outerHTML.slice(0, 120))""")
    check(nameless == [], "every control has a name", nameless)
    check(page.get_attribute("#messages", "role") == "log" and page.locator("main").count() == 1 and page.locator("h1").count() == 1 and
          page.locator("nav[aria-label]").count() == 1, "landmarks for screen readers")
    v.close("keyboard")


WIDE = "A" * 300 + "\n\n```\n" + "x" * 400 + "\n```\n\n| " + " | ".join(f"column {i}" for i in range(12)) + " |\n|" + "---|" * 12 + "\n\n" + \
    "`" + "c" * 200 + "` https://example.com/" + "p" * 200


def test_phone(browser, address):
    v = Visit(browser, address, viewport={"width": 360, "height": 640}, is_mobile=True, has_touch=True, device_scale_factor=2)
    page = v.page

    def overflow():
        return page.evaluate("""[document.documentElement.scrollWidth, document.body.scrollWidth, document.querySelector('#scroll').scrollWidth -
            document.querySelector('#scroll').clientWidth, Math.max(...[...document.querySelectorAll('main > *, .message, .message .foot > *')]
            .filter((e) => e.offsetWidth).map((e) => Math.ceil(e.getBoundingClientRect().right)))]""")

    def fits(o):
        return o[0] <= 360 and o[1] <= 360 and o[2] <= 0 and o[3] <= 360
    check(fits(overflow()), "360 pixels: the start page does not scroll sideways", overflow())
    v.answer_with(WIDE, reasoning=WIDE)
    v.ask("u" * 300)
    page.tap(".reasoning summary")
    check(fits(overflow()), "nor does a wide answer", overflow())
    scrolls = page.evaluate("""['.markdown pre', '.markdown .table'].map((s) => { const e = document.querySelector(s); e.scrollLeft = 1e6;
        return e.scrollLeft > 0 && ['auto', 'scroll'].includes(getComputedStyle(e).overflowX); })""")
    check(scrolls == [True, True], "wide code and tables scroll by themselves", scrolls)
    check(page.is_hidden("#sidebar"), "the list makes room")
    page.tap("#sidebar-open")
    check(page.is_visible("#sidebar") and fits(overflow()), "and slides over the page")
    page.touchscreen.tap(350, 400)
    check(page.is_hidden("#sidebar"), "a tap beside closes it")
    page.tap("#open-settings")
    box = page.locator("#settings").bounding_box()
    check(box["x"] >= 0 and box["width"] <= 360 and
          page.evaluate("document.querySelector('.dialog-body').scrollWidth <= document.querySelector('.dialog-body').clientWidth"),
          "settings fit", box)
    page.press("#settings", "Escape")
    small = page.evaluate("""[...document.querySelectorAll('button')].filter((e) => e.offsetWidth && e.getBoundingClientRect().top >= 0 &&
        (e.offsetWidth < 32 || e.offsetHeight < 28)).map((e) => e.outerHTML.slice(0, 100) + e.offsetWidth + 'x' + e.offsetHeight)""")
    check(small == [], "buttons are large enough to touch", *small)
    v.close("phone")


CONTRAST = """(selectors) => {
    const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
    const rgb = (colour) => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1); return [...canvas.getImageData(0, 0, 1, 1).data]; };
    const light = (c) => { const l = c.slice(0, 3).map((v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
        return 0.2126 * l[0] + 0.7152 * l[1] + 0.0722 * l[2]; };
    const bad = [];
    for (const selector of selectors) for (const e of [...document.querySelectorAll(selector)].slice(0, 3)) {
        let b = e, back; while (b && (back = rgb(getComputedStyle(b).backgroundColor))[3] < 255) b = b.parentElement;
        const one = light(rgb(getComputedStyle(e).color)), two = light(back), ratio = (Math.max(one, two) + 0.05) / (Math.min(one, two) + 0.05);
        if (ratio < 4.5) bad.push(selector + ' ' + ratio.toFixed(2));
    }
    return bad;
}"""
SELECTORS = ["body", ".bubble", ".stats", ".name", "#hint", "#chats h2", ".chat", ".markdown a", "blockquote", ".markdown code", ".t-comment",
             ".t-word", ".t-string", ".t-number", ".t-call", ".code figcaption span", "th", ".error", "#send", "summary span", "#facts", ".small"]


def test_colours(browser, address):
    v = Visit(browser, address, color_scheme="dark")
    page = v.page
    back = "getComputedStyle(document.body).backgroundColor"
    v.answer_with(open(os.path.join(HERE, "elements.md"), encoding="utf-8").read(), reasoning="Hm.")
    v.ask("Hello")
    dark = page.evaluate(back)
    check(dark == "rgb(22, 24, 28)", "a dark system: a dark page", dark)
    check(page.evaluate(CONTRAST, SELECTORS) == [], "dark: text stands out (4.5:1)", page.evaluate(CONTRAST, SELECTORS))
    page.click("#theme")
    check(page.evaluate(back) == "rgb(255, 255, 255)", "the switch makes it light")
    check(page.evaluate(CONTRAST, SELECTORS) == [], "light: text stands out (4.5:1)", page.evaluate(CONTRAST, SELECTORS))
    page.reload()
    check(page.evaluate(back) == "rgb(255, 255, 255)", "which is kept")
    page.click("#open-settings")
    page.click(".segments >> text=System")
    check(page.evaluate(back) == dark, "back to the system's")
    page.emulate_media(color_scheme="light")
    check(page.evaluate(back) == "rgb(255, 255, 255)", "and it follows")
    v.close("colours")


def test_models(browser, address):
    v = Visit(browser, address)
    page = v.page
    page.route("**/v1/models", lambda r: r.fulfill(json={"data": [{"id": "a/b", "status": {"value": "loaded"}}, {"id": "<i>c</i>", "status": {"value": "unloaded"}}]}))
    page.reload()
    v.until("document.querySelector('#model').options.length === 2")
    check(page.locator("#model option").all_inner_texts() == ["a/b", "<i>c</i> (not loaded)"], "several models")
    page.select_option("#model", "<i>c</i>")
    page.route("**/v1/chat/completions", lambda r: r.fulfill(status=404, json={"error": {"message": "the model '<i>c</i>' does not exist here"}}))
    v.ask("x")
    check(v.bodies[-1]["model"] == "<i>c</i>" and "<i>c</i>" in page.inner_text(".error"), "the one that was picked is asked")
    page.reload()
    v.until("document.querySelector('#model').value === '<i>c</i>'")
    check(True, "and stays picked")
    v.close("models")


def take_pictures(browser, address, folder):
    demo = os.path.join(HERE, "demo.json")

    def picture(name, before=None, **context):
        v = Visit(browser, address, **context)
        v.page.click("#open-settings")
        v.page.set_input_files("#file", demo)
        v.page.wait_for_selector("#toast.shown")
        v.page.press("#settings", "Escape")
        v.page.evaluate("document.querySelector('#toast').classList.remove('shown')")
        if before:
            before(v)
        v.page.mouse.move(700, 5)
        v.page.wait_for_timeout(400)
        v.page.screenshot(path=os.path.join(folder, name + ".png"))
        v.close("picture " + name)

    def open_demo(v, title="Sorting without a library"):
        if v.page.is_visible("#sidebar-open"):
            v.page.click("#sidebar-open")
        v.page.click(f"#chats >> text={title}")
        v.page.wait_for_selector(".message.assistant")

    def open_top(v):
        open_demo(v)
        v.page.evaluate("document.activeElement.blur(); document.querySelector('#scroll').scrollTop = 0")

    def story(v):
        v.set(max_tokens=110, seed=3)
        v.ask("Tell me a story about the sea")

    def settings(v):
        open_demo(v)
        v.page.click("#open-settings")
        v.page.fill("#system", "You answer briefly.")
        v.page.evaluate("document.activeElement.blur()")
    phone = {"viewport": {"width": 360, "height": 720}, "is_mobile": True, "has_touch": True, "device_scale_factor": 1.5}
    picture("web-desktop", open_top)
    picture("web-dark", lambda v: open_demo(v, "Planning a week in Lisbon"), color_scheme="dark")
    picture("web-phone", story, **phone)
    picture("web-settings", settings)
    picture("web-start", lambda v: v.page.evaluate("document.activeElement.blur()"), color_scheme="dark", **phone)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--pictures")
    parser.add_argument("--only", help="run tests whose name contains this")
    options = parser.parse_args()
    tests = [test_chat, test_stop, test_list, test_markdown, test_hostile, test_errors, test_key, test_keyboard, test_phone, test_colours, test_models]
    with server() as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        try:
            if options.pictures:
                take_pictures(browser, address, options.pictures)
                return done()
            for test in tests:
                if options.only and options.only not in test.__name__:
                    continue
                try:
                    test(*([browser] if test is test_key else [browser, address]))
                except Exception as error:
                    check(False, f"{test.__name__} comes to its end", error)
        finally:
            browser.close()
    return done()


if __name__ == "__main__":
    raise SystemExit(main())
