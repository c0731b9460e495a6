# SPDX-License-Identifier: Apache-2.0
"""litellm as a client of three of the server's dialects (on demand: a large package)."""
import os

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # nothing is fetched
import litellm  # noqa: E402
from support import MODEL  # noqa: E402
from with_openai import MESSAGES, TOOL  # noqa: E402


def ask(server, dialect, **fields):
    base = {"openai": "/v1", "anthropic": "", "ollama_chat": ""}[dialect]
    return litellm.completion(model=dialect + "/" + MODEL, api_base=server.url + base, api_key=server.key, messages=MESSAGES,
                              temperature=0, **{"max_tokens": 24, **fields})


def test_three_dialects_give_one_answer_streamed_and_not(server):
    answers = set()
    for dialect in ("openai", "anthropic", "ollama_chat"):
        answers.add(ask(server, dialect).choices[0].message.content)
        answers.add("".join(c.choices[0].delta.content or "" for c in ask(server, dialect, stream=True)))
    assert len(answers) == 1 and answers != {""}, answers


def test_tool_calls(server):
    for dialect in ("openai", "anthropic"):
        message = ask(server, dialect, tools=[TOOL], tool_choice="required", max_tokens=100).choices[0].message
        assert message.tool_calls[0].function.name == "weather", dialect


def test_embeddings(server):
    found = litellm.embedding(model="openai/" + MODEL, api_base=server.url + "/v1", api_key=server.key, input=["a", "b"],
                              encoding_format="float")
    assert len(found.data) == 2
