# SPDX-License-Identifier: Apache-2.0
"""langchain-openai as a client (on demand: a large package)."""
import langchain_openai
import pydantic
from support import MODEL


class Person(pydantic.BaseModel):
    """A person."""

    name: str = pydantic.Field(max_length=12)
    age: int = pydantic.Field(ge=0, le=99)


def model(server, **fields):
    return langchain_openai.ChatOpenAI(model=MODEL, base_url=server.url + "/v1", api_key=server.key, temperature=0,
                                       max_retries=0, **fields)


def test_invoke_and_stream_are_equal(server):
    whole = model(server, max_tokens=24).invoke("Tell me about the sea.")
    assert whole.content and whole.usage_metadata["output_tokens"] == 24
    assert "".join(piece.content for piece in model(server, max_tokens=24).stream("Tell me about the sea.")) == whole.content


def test_structured_output_by_schema_and_by_tool(server):
    for method in ("json_schema", "function_calling"):
        found = model(server, max_tokens=200).with_structured_output(Person, method=method).invoke("A person.")
        assert isinstance(found, Person), method


def test_bound_tools(server):
    bound = model(server, max_tokens=100).bind_tools([Person], tool_choice="Person")
    assert bound.invoke("A person.").tool_calls[0]["name"] == "Person"


def test_the_responses_api(server):
    answer = model(server, max_tokens=24, use_responses_api=True).invoke("Tell me about the sea.")
    assert answer.text if isinstance(answer.text, str) else answer.text()


def test_embeddings(server):
    embeddings = langchain_openai.OpenAIEmbeddings(model=MODEL, base_url=server.url + "/v1", api_key=server.key,
                                                   check_embedding_ctx_length=False)
    assert len(embeddings.embed_documents(["a", "b"])) == 2
