# SPDX-License-Identifier: Apache-2.0
"""Every route that the library `ollama` knows of those that the server has, streamed and not."""
import json

import ollama
from support import MODEL
from with_openai import SCHEMA, TOOL, expect

MESSAGES = [{"role": "user", "content": "Tell me about the sea."}]
OPTIONS = {"temperature": 0, "num_predict": 24}


def client(server, key=None):
    return ollama.Client(host=server.url, headers={"Authorization": "Bearer " + (key or server.key)}, timeout=60)


def test_list_show_and_ps(server):
    c = client(server)
    names = [m.model for m in c.list().models]
    assert len(names) == 1 and names[0].startswith(MODEL), names
    shown = c.show(MODEL)
    assert shown.details.family and "completion" in shown.capabilities, shown
    assert any(key.endswith(".context_length") for key in shown.modelinfo), shown.modelinfo
    assert [m.model for m in c.ps().models] == names


def test_errors(server):
    error = expect(ollama.ResponseError, client(server).chat, model="no-such-model", messages=MESSAGES)
    assert error.status_code == 404
    assert expect(ollama.ResponseError, client(server, "wrong").list).status_code == 401
    assert expect(ollama.ResponseError, client(server).pull, model="x").status_code == 501
    error = expect(ollama.ResponseError, client(server).generate, model=MODEL, prompt="sea " * 5000)
    assert error.status_code == 400


def test_chat(server):
    answer = client(server).chat(model=MODEL, messages=MESSAGES, options=OPTIONS)
    assert answer.message.content and answer.done and answer.done_reason == "length" and answer.eval_count == 24
    assert answer.prompt_eval_count > 5 and answer.total_duration > 0
    by_tag = client(server).chat(model=MODEL + ":latest", messages=MESSAGES, options=OPTIONS)
    assert by_tag.message.content == answer.message.content


def test_chat_streamed_equals_chat(server):
    whole = client(server).chat(model=MODEL, messages=MESSAGES, options=OPTIONS)
    parts = list(client(server).chat(model=MODEL, messages=MESSAGES, options=OPTIONS, stream=True))
    assert "".join(p.message.content or "" for p in parts) == whole.message.content
    assert [p.done for p in parts].count(True) == 1 and parts[-1].eval_count == 24


def test_chat_with_a_schema_and_with_json(server):
    answer = client(server).chat(model=MODEL, messages=MESSAGES, format=SCHEMA, options={**OPTIONS, "num_predict": 200})
    assert set(json.loads(answer.message.content)) == {"name", "age"}
    answer = client(server).chat(model=MODEL, messages=MESSAGES, format="json", options={"seed": 3, "num_predict": 300})
    if answer.done_reason == "stop":
        json.loads(answer.message.content)


def test_chat_with_tools_and_their_results(server):
    history = MESSAGES + [
        {"role": "assistant", "tool_calls": [{"function": {"name": "weather", "arguments": {"city": "Rome"}}}]},
        {"role": "tool", "tool_name": "weather", "content": "sunny"},
    ]
    answer = client(server).chat(model=MODEL, messages=history, tools=[TOOL], options=OPTIONS)
    assert answer.message.content or answer.message.tool_calls

    def clock(zone: str) -> str:
        """What time it is.

        Args:
            zone: the time zone
        """
        return zone

    assert client(server).chat(model=MODEL, messages=MESSAGES, tools=[clock], options=OPTIONS).done


def test_chat_that_should_not_think(server):
    assert client(server).chat(model=MODEL, messages=MESSAGES, think=False, options=OPTIONS).message.content


def test_generate(server):
    whole = client(server).generate(model=MODEL, prompt="The sea", raw=True, options=OPTIONS)
    assert whole.response and whole.done_reason == "length" and whole.eval_count == 24
    parts = list(client(server).generate(model=MODEL, prompt="The sea", raw=True, options=OPTIONS, stream=True))
    assert "".join(p.response for p in parts) == whole.response
    with_system = client(server).generate(model=MODEL, prompt="The sea", system="You tell stories.", options=OPTIONS)
    assert with_system.response
    form = client(server).generate(model=MODEL, prompt="A person", format=SCHEMA, options={**OPTIONS, "num_predict": 200})
    assert set(json.loads(form.response)) == {"name", "age"}


def test_generate_without_a_prompt_loads_the_model(server):
    assert client(server).generate(model=MODEL, keep_alive="5m").done_reason == "load"


def test_embed_and_embeddings(server):
    both = client(server).embed(model=MODEL, input=["The sea", "the king"])
    one = client(server).embed(model=MODEL, input="the king")
    assert len(both.embeddings) == 2 and list(both.embeddings[1]) == list(one.embeddings[0])
    assert len(client(server).embeddings(model=MODEL, prompt="the king").embedding) == len(one.embeddings[0])
