# SPDX-License-Identifier: Apache-2.0
"""Every route that the library `anthropic` knows of those that the server has, streamed and not."""
import json

import anthropic
from support import MODEL
from with_openai import SCHEMA, TOOL, expect

MESSAGES = [{"role": "user", "content": "Tell me about the sea."}]
WEATHER = {"name": "weather", "description": "Weather of a city", "input_schema": TOOL["function"]["parameters"]}


def client(server, key=None):
    return anthropic.Anthropic(base_url=server.url, api_key=key or server.key, max_retries=0, timeout=60)


def send(server, **fields):
    fields = {"model": MODEL, "messages": MESSAGES, "max_tokens": 24, "extra_body": {"temperature": 0}, **fields}
    return client(server).messages.create(**fields)


def text_of(message):
    return "".join(block.text for block in message.content if block.type == "text")


def test_models(server):
    models = list(client(server).models.list())
    assert [m.id for m in models] == [MODEL]
    assert client(server).models.retrieve(MODEL).id == MODEL


def test_errors_have_their_classes(server):
    expect(anthropic.AuthenticationError, client(server, "wrong").messages.create, model=MODEL, messages=MESSAGES, max_tokens=1)
    expect(anthropic.NotFoundError, send, server=server, model="no-such-model")
    error = expect(anthropic.BadRequestError, send, server=server, max_tokens=0)
    assert error.body["error"]["type"] == "invalid_request_error"
    expect(anthropic.BadRequestError, send, server=server, messages=[{"role": "user", "content": "sea " * 5000}])


def test_messages(server):
    message = send(server, system="You tell stories.", metadata={"user_id": "me"})
    assert message.type == "message" and message.role == "assistant" and text_of(message)
    assert message.stop_reason == "max_tokens" and message.usage.output_tokens == 24
    blocks = send(server, system=[{"type": "text", "text": "You tell stories.", "cache_control": {"type": "ephemeral"}}],
                  messages=[{"role": "user", "content": [{"type": "text", "text": "Tell me about the sea."}]}])
    assert text_of(blocks) == text_of(message)


def test_messages_streamed_equal_messages(server):
    whole = text_of(send(server))
    kinds, pieces = [], []
    for event in send(server, stream=True):
        kinds.append(event.type)
        if event.type == "content_block_delta":
            pieces.append(event.delta.text)
    assert "".join(pieces) == whole
    assert kinds[:2] == ["message_start", "content_block_start"]
    assert kinds[-3:] == ["content_block_stop", "message_delta", "message_stop"]


def test_messages_through_the_stream_helper(server):
    fields = {"model": MODEL, "messages": MESSAGES, "max_tokens": 24, "extra_body": {"temperature": 0}}
    with client(server).messages.stream(**fields) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    assert text == text_of(final) == text_of(send(server))
    assert final.stop_reason == "max_tokens" and final.usage.output_tokens == 24


def test_a_stop_sequence(server):
    whole = text_of(send(server))
    word = whole.split()[3]
    message = send(server, stop_sequences=[word])
    assert message.stop_reason == "stop_sequence" and message.stop_sequence == word
    assert text_of(message) == whole[:whole.index(word)]


def test_a_prefilled_answer_goes_on(server):
    message = send(server, messages=MESSAGES + [{"role": "assistant", "content": "The sea is"}])
    assert text_of(message)


def test_count_tokens(server):
    n = client(server).messages.count_tokens(model=MODEL, messages=MESSAGES, system="You tell stories.").input_tokens
    usage = send(server, system="You tell stories.").usage
    assert n == usage.input_tokens + (usage.cache_read_input_tokens or 0)


def test_tool_use_and_its_result(server):
    message = send(server, tools=[WEATHER], tool_choice={"type": "any"}, max_tokens=100)
    call = message.content[-1]
    assert message.stop_reason == "tool_use" and call.type == "tool_use" and call.name == "weather"
    assert call.input["city"] in ("Oslo", "Rome")
    history = MESSAGES + [
        {"role": "assistant", "content": [block.to_dict() for block in message.content]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id, "content": "sunny"}]},
    ]
    assert text_of(send(server, messages=history, tools=[WEATHER], tool_choice={"type": "none"}))


def test_tool_use_streamed_equals_not_streamed(server):
    fields = {"model": MODEL, "messages": MESSAGES, "max_tokens": 100, "tools": [WEATHER], "extra_body": {"temperature": 0},
              "tool_choice": {"type": "tool", "name": "weather"}}
    whole = client(server).messages.create(**fields).content[-1]
    with client(server).messages.stream(**fields) as stream:
        final = stream.get_final_message().content[-1]
    assert (final.name, final.input) == (whole.name, whole.input)


def test_output_with_a_schema(server):
    form = {"format": {"type": "json_schema", "schema": SCHEMA}}
    message = send(server, max_tokens=200, extra_body={"output_config": form, "temperature": 0})
    assert set(json.loads(text_of(message))) == {"name", "age"}


def test_thinking_may_be_switched_off(server):
    assert text_of(send(server, thinking={"type": "disabled"}))
