# SPDX-License-Identifier: Apache-2.0
"""Every route that the library `openai` knows of those that the server has, streamed and not."""
import base64
import json
import struct

import openai
from support import MODEL, check

MESSAGES = [{"role": "system", "content": "You tell stories."}, {"role": "user", "content": "Tell me about the sea."}]
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer", "minimum": 0, "maximum": 120}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
TOOL = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "Weather of a city",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "enum": ["Oslo", "Rome"]}, "days": {"type": "integer", "maximum": 9}},
            "required": ["city"],
            "additionalProperties": False,
        },
    },
}


def client(server, **options):
    return openai.OpenAI(base_url=server.url + "/v1", api_key=server.key, max_retries=0, timeout=60, **options)


def expect(error, function, **arguments):
    try:
        function(**arguments)
    except error as found:
        return found
    raise AssertionError("no " + error.__name__)


def chat(server, **fields):
    fields = {"model": MODEL, "messages": MESSAGES, "max_tokens": 24, "temperature": 0, **fields}
    return client(server).chat.completions.create(**fields)


def test_models(server):
    models = client(server).models.list()
    check("ListModelsResponse", models.to_dict())
    assert [m.id for m in models] == [MODEL]
    one = client(server).models.retrieve(MODEL)
    check("Model", one.to_dict())
    expect(openai.NotFoundError, client(server).models.retrieve, model="no-such-model")


def test_a_wrong_key_is_an_authentication_error(server):
    other = openai.OpenAI(base_url=server.url + "/v1", api_key="wrong", max_retries=0)
    assert expect(openai.AuthenticationError, other.models.list).status_code == 401


def test_errors_have_their_classes_and_fields(server):
    error = expect(openai.BadRequestError, chat, server=server, temperature=-1)
    assert error.param == "temperature" and error.type == "invalid_request_error", error.body
    check("Error", error.body)
    expect(openai.NotFoundError, chat, server=server, model="no-such-model")
    error = expect(openai.BadRequestError, chat, server=server, messages=[{"role": "user", "content": "sea " * 5000}])
    assert error.code == "context_length_exceeded", error.body


def test_chat(server):
    answer = chat(server)
    check("CreateChatCompletionResponse", answer.to_dict())
    assert answer.choices[0].message.content and answer.choices[0].finish_reason == "length"
    assert answer.usage.completion_tokens == 24
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + 24


def test_chat_with_every_common_field(server):
    answer = chat(server, max_completion_tokens=9, max_tokens=openai.omit, top_p=0.9, presence_penalty=0.1, frequency_penalty=0.2,
                  seed=3, stop=["zzz"], logit_bias={"5": -5}, user="me", metadata={"a": "b"}, store=False, n=1,
                  service_tier="auto", parallel_tool_calls=True)
    assert answer.usage.completion_tokens <= 9


def test_chat_streamed_equals_chat(server):
    whole = chat(server).choices[0].message.content
    pieces, usage, reasons = [], None, []
    for chunk in chat(server, stream=True, stream_options={"include_usage": True}):
        check("CreateChatCompletionStreamResponse", chunk.to_dict())
        usage = chunk.usage or usage
        for choice in chunk.choices:
            pieces.append(choice.delta.content or "")
            reasons += [choice.finish_reason] if choice.finish_reason else []
    assert "".join(pieces) == whole
    assert reasons == ["length"] and usage.completion_tokens == 24


def test_chat_through_the_stream_helper(server):
    # Its end of an answer that reached its limit is an exception; a stop string ends it well.
    stop = chat(server).choices[0].message.content.split()[5]
    with client(server).chat.completions.stream(model=MODEL, messages=MESSAGES, max_tokens=24, temperature=0, stop=stop) as stream:
        for _ in stream:
            pass
        final = stream.get_final_completion()
    assert final.choices[0].finish_reason == "stop"
    assert final.choices[0].message.content == chat(server, stop=stop).choices[0].message.content


def test_chat_n_and_logprobs(server):
    answer = chat(server, n=2, temperature=0.8, seed=4, logprobs=True, top_logprobs=3, max_tokens=6)
    check("CreateChatCompletionResponse", answer.to_dict())
    assert [c.index for c in answer.choices] == [0, 1]
    for choice in answer.choices:
        assert len(choice.logprobs.content) == 6 and len(choice.logprobs.content[0].top_logprobs) == 3
        assert all(t.logprob <= 0 for t in choice.logprobs.content)


def test_chat_with_a_json_schema(server):
    form = {"type": "json_schema", "json_schema": {"name": "person", "schema": SCHEMA, "strict": True}}
    for stream in (False, True):
        answer = chat(server, response_format=form, max_tokens=200, stream=stream)
        text = "".join(c.choices[0].delta.content or "" for c in answer) if stream else answer.choices[0].message.content
        value = json.loads(text)
        assert set(value) == {"name", "age"} and len(value["name"]) <= 12
        assert value["age"] == int(value["age"]) and 0 <= value["age"] <= 120, value  # 13.0 is an integer to JSON Schema


def test_chat_parse_into_a_pydantic_model(server):
    import pydantic

    class Person(pydantic.BaseModel):
        name: str = pydantic.Field(max_length=12)
        age: int = pydantic.Field(ge=0, le=99)

    answer = client(server).chat.completions.parse(model=MODEL, messages=MESSAGES, max_tokens=200, temperature=0,
                                                   response_format=Person)
    assert isinstance(answer.choices[0].message.parsed, Person)


def test_chat_json_object(server):
    answer = chat(server, response_format={"type": "json_object"}, max_tokens=300, temperature=0.7, seed=2)
    if answer.choices[0].finish_reason == "stop":
        assert isinstance(json.loads(answer.choices[0].message.content), dict)


def test_chat_tool_call_and_its_result(server):
    answer = chat(server, tools=[TOOL], tool_choice="required", max_tokens=100)
    check("CreateChatCompletionResponse", answer.to_dict())
    call = answer.choices[0].message.tool_calls[0]
    arguments = json.loads(call.function.arguments)
    assert answer.choices[0].finish_reason == "tool_calls"
    assert call.function.name == "weather" and arguments["city"] in ("Oslo", "Rome")
    history = MESSAGES + [answer.choices[0].message, {"role": "tool", "tool_call_id": call.id, "content": "sunny"}]
    assert chat(server, messages=history, tools=[TOOL], tool_choice="none").choices[0].message.content


def test_chat_tool_call_streamed_equals_not_streamed(server):
    choice = {"type": "function", "function": {"name": "weather"}}
    call = chat(server, tools=[TOOL], tool_choice=choice, max_tokens=100).choices[0].message.tool_calls[0]
    name, arguments, reason = "", "", None
    for chunk in chat(server, tools=[TOOL], tool_choice=choice, max_tokens=100, stream=True):
        check("CreateChatCompletionStreamResponse", chunk.to_dict())
        for part in chunk.choices[0].delta.tool_calls or []:
            name += part.function.name or ""
            arguments += part.function.arguments or ""
        reason = chunk.choices[0].finish_reason or reason
    assert (name, arguments) == (call.function.name, call.function.arguments)


def test_completions(server):
    fields = {"model": MODEL, "prompt": "The sea", "max_tokens": 16, "temperature": 0}
    answer = client(server).completions.create(**fields)
    check("CreateCompletionResponse", answer.to_dict())
    pieces = []
    for chunk in client(server).completions.create(stream=True, **fields):
        raw = chunk.to_dict()
        for choice in raw["choices"]:
            # OpenAI sends null before the end too, which its document does not allow.
            choice["finish_reason"] = choice["finish_reason"] or "stop"
        check("CreateCompletionResponse", raw)
        pieces += [choice.text for choice in chunk.choices]
    assert "".join(pieces) == answer.choices[0].text and answer.choices[0].text


def test_completions_of_several_prompts_with_echo(server):
    answer = client(server).completions.create(model=MODEL, prompt=["The sea", "A king"], n=2, best_of=2, max_tokens=5, echo=True,
                                               temperature=0.5, seed=1)
    check("CreateCompletionResponse", answer.to_dict())
    assert [c.index for c in answer.choices] == [0, 1, 2, 3]
    assert answer.choices[0].text.startswith("The sea") and answer.choices[2].text.startswith("A king")


def test_completions_with_logprobs(server):
    answer = client(server).completions.create(model=MODEL, prompt="The sea", max_tokens=5, logprobs=2, temperature=0)
    check("CreateCompletionResponse", answer.to_dict())
    found = answer.choices[0].logprobs
    assert "".join(found.tokens) == answer.choices[0].text
    assert all(max(top.values()) == value for top, value in zip(found.top_logprobs, found.token_logprobs))


def test_completions_of_token_ids(server):
    tokens = server.ask("POST", "/tokenize", {"content": "The sea"})[1]["tokens"]
    fields = {"model": MODEL, "max_tokens": 8, "temperature": 0}
    by_ids = client(server).completions.create(prompt=tokens, **fields)
    assert by_ids.choices[0].text == client(server).completions.create(prompt="The sea", **fields).choices[0].text


def test_embeddings(server):
    floats = client(server).embeddings.create(model=MODEL, input=["The sea", "the king"], encoding_format="float")
    check("CreateEmbeddingResponse", floats.to_dict())
    coded = client(server).embeddings.create(model=MODEL, input="the king")  # the library asks for base64
    assert len(coded.data[0].embedding) == len(floats.data[1].embedding)
    assert max(abs(a - b) for a, b in zip(coded.data[0].embedding, floats.data[1].embedding)) < 1e-6
    raw = client(server).embeddings.with_raw_response.create(model=MODEL, input="the king", encoding_format="base64")
    packed = base64.b64decode(json.loads(raw.text if isinstance(raw.text, str) else raw.text())["data"][0]["embedding"])
    assert abs(struct.unpack_from("<f", packed)[0] - coded.data[0].embedding[0]) < 1e-6
    short = client(server).embeddings.create(model=MODEL, input="the king", dimensions=8)
    assert len(short.data[0].embedding) == 8


def test_responses(server):
    answer = client(server).responses.create(model=MODEL, instructions="You tell stories.", input="Tell me about the sea.",
                                             max_output_tokens=24, temperature=0, store=False)
    check("Response", answer.to_dict())
    assert answer.output_text and answer.usage.output_tokens == 24 and answer.status == "incomplete"
    assert answer.incomplete_details.reason == "max_output_tokens"


def test_responses_streamed_equals_not_streamed(server):
    fields = {"model": MODEL, "input": "Tell me about the sea.", "max_output_tokens": 24, "temperature": 0}
    whole = client(server).responses.create(**fields).output_text
    text, last, number = "", None, -1
    for event in client(server).responses.create(stream=True, **fields):
        check("ResponseStreamEvent", event.to_dict())
        assert event.sequence_number == number + 1
        number, last = event.sequence_number, event
        text += event.delta if event.type == "response.output_text.delta" else ""
    assert last.type == "response.incomplete" and text == whole == last.response.output_text


def test_responses_are_kept_and_deleted(server):
    c = client(server)
    first = c.responses.create(model=MODEL, input="My name is Ada.", max_output_tokens=8, temperature=0, store=True)
    kept = c.responses.retrieve(first.id)
    check("Response", kept.to_dict())
    assert kept.output_text == first.output_text
    items = c.responses.input_items.list(first.id)
    check("ResponseItemList", items.to_dict())
    assert items.data[0].role == "user" and items.data[0].content[0].text == "My name is Ada."
    after = c.responses.create(model=MODEL, input="What is it?", previous_response_id=first.id, max_output_tokens=8, temperature=0)
    assert after.usage.input_tokens > first.usage.input_tokens + first.usage.output_tokens
    c.responses.delete(first.id)
    expect(openai.NotFoundError, c.responses.retrieve, response_id=first.id)


def test_responses_list_their_input_items_page_by_page(server):
    given = [{"role": "user", "content": "one"}, {"role": "assistant", "content": "two"},
             {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": "{}"},
             {"type": "function_call_output", "call_id": "c1", "output": "sunny"},
             {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "three"}]}]
    answer = client(server).responses.create(model=MODEL, input=given, max_output_tokens=2)
    listed = list(client(server).responses.input_items.list(answer.id, limit=2, order="asc"))  # asks for three pages
    assert [item.type for item in listed] == ["message", "message", "function_call", "function_call_output", "message"]
    newest = client(server).responses.input_items.list(answer.id)
    check("ResponseItemList", newest.to_dict())
    assert [item.id for item in newest.data] == [item.id for item in reversed(listed)] and not newest.has_more
    expect(openai.BadRequestError, client(server).responses.input_items.list, response_id=answer.id, after="nothing")


def test_responses_count_input_tokens(server):
    c = client(server)
    count = c.responses.input_tokens.count(model=MODEL, input="Tell me about the sea.")
    answer = c.responses.create(model=MODEL, input="Tell me about the sea.", max_output_tokens=1)
    assert count.input_tokens == answer.usage.input_tokens


def test_responses_with_a_schema(server):
    form = {"format": {"type": "json_schema", "name": "person", "schema": SCHEMA, "strict": True}}
    answer = client(server).responses.create(model=MODEL, input="A person.", text=form, max_output_tokens=200, temperature=0)
    check("Response", answer.to_dict())
    assert set(json.loads(answer.output_text)) == {"name", "age"}


def test_responses_call_tools(server):
    tool = {"type": "function", "strict": True, **TOOL["function"]}
    fields = {"model": MODEL, "tools": [tool], "max_output_tokens": 100, "temperature": 0}
    asked = [{"role": "user", "content": "Weather in Rome?"}]
    answer = client(server).responses.create(input=asked, tool_choice="required", **fields)
    check("Response", answer.to_dict())
    call = answer.output[0]
    assert call.type == "function_call" and json.loads(call.arguments)["city"] in ("Oslo", "Rome")
    arguments = ""
    for event in client(server).responses.create(input=asked, tool_choice="required", stream=True, **fields):
        check("ResponseStreamEvent", event.to_dict())
        arguments += event.delta if event.type == "response.function_call_arguments.delta" else ""
    assert arguments == call.arguments
    history = asked + [call.to_dict(), {"type": "function_call_output", "call_id": call.call_id, "output": "sunny"}]
    assert client(server).responses.create(input=history, tool_choice="none", **fields).output_text


def test_responses_through_the_stream_helper(server):
    with client(server).responses.stream(model=MODEL, input="Tell me.", max_output_tokens=200, temperature=0,
                                         text={"format": {"type": "json_schema", "name": "p", "schema": SCHEMA}}) as stream:
        for _ in stream:
            pass
        final = stream.get_final_response()
    assert set(json.loads(final.output_text)) == {"name", "age"}


def test_async_requests_at_a_time_equal_single_ones(server):
    import asyncio
    prompts = ["The sea", "A king", "Once upon", "In the dark"]
    fields = {"model": MODEL, "max_tokens": 20, "temperature": 0}

    async def ask_all():
        async with openai.AsyncOpenAI(base_url=server.url + "/v1", api_key=server.key) as c:
            return await asyncio.gather(*(c.completions.create(prompt=p, **fields) for p in prompts))

    together = [a.choices[0].text for a in asyncio.run(ask_all())]
    assert together == [client(server).completions.create(prompt=p, **fields).choices[0].text for p in prompts]


def test_a_stream_that_is_closed_ends_its_request(server):
    import time
    stream = chat(server, stream=True, max_tokens=700, extra_body={"ignore_eos": True})
    next(iter(stream))
    stream.close()
    until = time.monotonic() + 5
    while server.n_busy() and time.monotonic() < until:
        time.sleep(0.02)
    assert server.n_busy() == 0
