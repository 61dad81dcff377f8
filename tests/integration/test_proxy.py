"""`acc proxy` with the official client, in front of a scripted server."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest
from openai import AsyncOpenAI, OpenAI
from pydantic import BaseModel

from acc.cli import execute
from acc.testing.providers import ProviderServer, Reply, fail, say, use

_MODEL = "some-model"
_RULE = "From now on, always state prices in euros."
_TOOL = {
    "name": "lookup",
    "description": "Look up a price.",
    "parameters": {"type": "object", "properties": {"item": {"type": "string"}}},
}


@contextmanager
def _proxy(upstream: str, *options: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Run the command; its base URL and process."""
    process = subprocess.Popen(  # noqa: S603 - the command under test
        [sys.executable, "-m", "acc", "proxy", "--to", upstream, "--port", "0", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | {"PROXY_TOKEN": "the-token-of-the-proxy"},
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    try:
        assert line.startswith("OpenAI API at "), line + process.stdout.read()
        yield line.split()[-1], process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.fixture(scope="module")
def upstream() -> Iterator[ProviderServer]:
    with ProviderServer() as server:
        yield server


@pytest.fixture(scope="module")
def url(upstream: ProviderServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    store = tmp_path_factory.mktemp("proxy") / "memory.db"
    with _proxy(upstream.url, "--store", str(store), "--budget", "256") as (url, _):
        yield url


@pytest.fixture
def client(url: str, upstream: ProviderServer, request: pytest.FixtureRequest) -> OpenAI:
    upstream.script.clear()
    upstream.requests.clear()
    return OpenAI(base_url=url, api_key=f"key-{request.node.name}", max_retries=0)


def _sent(upstream: ProviderServer) -> list[dict[str, Any]]:
    return list(upstream.requests[-1].body["messages"])


def _text(messages: list[dict[str, Any]]) -> str:
    return "\n".join(str(message.get("content")) for message in messages)


def test_chat_requests_stay_bounded_and_contain_the_rule(
    client: OpenAI, upstream: ProviderServer
) -> None:
    history: list[Any] = [{"role": "system", "content": "You sell lamps."}]
    sizes = []
    for turn in range(40):
        text = _RULE if turn == 0 else f"Tell me something about lamp number {turn}, please."
        history.append({"role": "user", "content": text})
        upstream.script.append(say(f"Lamp {turn} is a fine lamp. " * 20))
        answer = client.chat.completions.create(model=_MODEL, messages=history)
        history.append({"role": "assistant", "content": answer.choices[0].message.content})
        sizes.append(len(_text(_sent(upstream))))
    sent = _sent(upstream)
    assert sent[0] == {"role": "system", "content": "You sell lamps."}
    assert sent[-1]["content"].startswith("Tell me something about lamp number 39")
    assert _RULE in _text(sent)
    assert sizes[39] <= 1.25 * sizes[9]
    assert len(_text(history)) > 5 * sizes[39]


def test_session_header_continues_without_a_history(
    client: OpenAI, upstream: ProviderServer
) -> None:
    headers = {"X-Acc-Session": "first"}
    upstream.script += [say("Noted, Mr. Fuchs."), say("Yes.")]
    client.chat.completions.create(
        model=_MODEL,
        messages=[{"role": "user", "content": "My name is Fuchs."}],
        extra_headers=headers,
    )
    client.chat.completions.create(
        model=_MODEL,
        messages=[{"role": "user", "content": "Do you know my name?"}],
        extra_headers=headers,
    )
    text = _text(_sent(upstream))
    assert "My name is Fuchs." in text
    assert "Noted, Mr. Fuchs." in text
    assert "x-acc-session" not in upstream.requests[-1].headers
    # The same id of another key is another conversation.
    other = client.with_options(api_key="another-key")
    other.chat.completions.create(
        model=_MODEL, messages=[{"role": "user", "content": "Hello?"}], extra_headers=headers
    )
    assert "Fuchs" not in _text(_sent(upstream))


def test_streams_are_sent_on_and_noted(client: OpenAI, upstream: ProviderServer) -> None:
    headers = {"X-Acc-Session": "streamed"}
    upstream.script += [say("The code is 4711."), say("Yes.")]
    stream = client.chat.completions.create(
        model=_MODEL,
        messages=[{"role": "user", "content": "What is the code?"}],
        stream=True,
        extra_headers=headers,
    )
    text = "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)
    assert text == "The code is 4711."
    client.chat.completions.create(
        model=_MODEL,
        messages=[{"role": "user", "content": "Are you sure?"}],
        extra_headers=headers,
    )
    assert "The code is 4711." in _text(_sent(upstream))


def test_tool_calls_of_the_turn_are_complete(client: OpenAI, upstream: ProviderServer) -> None:
    tools: Any = [{"type": "function", "function": _TOOL}]
    history: list[Any] = [{"role": "user", "content": "What does the lamp cost?"}]
    upstream.script += [use("lookup", item="lamp"), say("It costs 20.")]
    first = client.chat.completions.create(model=_MODEL, messages=history, tools=tools)
    message = first.choices[0].message
    assert message.tool_calls is not None
    history.append(message.model_dump(exclude_none=True))
    history.append({"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "20"})
    second = client.chat.completions.create(model=_MODEL, messages=history, tools=tools)
    assert second.choices[0].message.content == "It costs 20."
    assert [one["role"] for one in _sent(upstream)][-3:] == ["user", "assistant", "tool"]
    history.append({"role": "assistant", "content": "It costs 20."})
    history.append({"role": "user", "content": "And two of them?"})
    client.chat.completions.create(model=_MODEL, messages=history, tools=tools)
    calls = {c["id"] for one in _sent(upstream) for c in one.get("tool_calls") or ()}
    results = {one["tool_call_id"] for one in _sent(upstream) if one["role"] == "tool"}
    assert calls == results == {message.tool_calls[0].id}


def test_responses_continue_from_the_previous_one(client: OpenAI, upstream: ProviderServer) -> None:
    upstream.script.append(say("Understood."))
    response = client.responses.create(model=_MODEL, input=_RULE, instructions="Be brief.")
    assert response.output_text == "Understood."
    assert response.status == "completed"
    assert response.usage is not None and response.usage.input_tokens > 0
    first = response.id
    for turn in range(12):
        upstream.script.append(say(f"Answer {turn}. " * 30))
        response = client.responses.create(
            model=_MODEL, input=f"Question {turn}?", previous_response_id=response.id
        )
    sent = _sent(upstream)
    assert _RULE in _text(sent)
    assert "Be brief." not in _text(sent)  # instructions are those of one request
    assert "Question 11?" in sent[-1]["content"]
    assert len(_text(sent)) < 4_000
    stored = client.responses.retrieve(response.id)
    assert stored.output_text == response.output_text
    assert stored.previous_response_id == response.previous_response_id
    # The first response again: a second branch, which does not contain the first one.
    upstream.script.append(say("Fine."))
    client.responses.create(model=_MODEL, input="Let us start over.", previous_response_id=first)
    text = _text(_sent(upstream))
    assert _RULE in text
    assert "Question" not in text
    client.responses.delete(first)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(first)
    with pytest.raises(openai.BadRequestError, match="previous_response_id"):
        client.responses.create(model=_MODEL, input="Hello", previous_response_id=first)
    with pytest.raises(openai.BadRequestError, match="another API key"):
        client.with_options(api_key="thief").responses.create(
            model=_MODEL, input="Hello", previous_response_id=response.id
        )


def test_streamed_responses_with_tools(client: OpenAI, upstream: ProviderServer) -> None:
    tools: Any = [{"type": "function", "strict": False, **_TOOL}]
    upstream.script += [use("lookup", item="lamp"), say("It costs 20 euros."), say("40.")]
    with client.responses.stream(model=_MODEL, input="The price?", tools=tools) as stream:
        kinds = [event.type for event in stream]
        first = stream.get_final_response()
    assert kinds[0] == "response.created" and kinds[-1] == "response.completed"
    assert "response.function_call_arguments.done" in kinds
    call = first.output[0]
    assert call.type == "function_call" and call.name == "lookup"
    assert call.arguments.replace(" ", "") == '{"item":"lamp"}'
    with client.responses.stream(
        model=_MODEL,
        tools=tools,
        previous_response_id=first.id,
        input=[{"type": "function_call_output", "call_id": call.call_id, "output": "20"}],
    ) as stream:
        texts = [e.delta for e in stream if e.type == "response.output_text.delta"]
        second = stream.get_final_response()
    assert "".join(texts) == second.output_text == "It costs 20 euros."
    roles = [one["role"] for one in _sent(upstream)]
    assert roles[-3:] == ["user", "assistant", "tool"]
    client.responses.create(model=_MODEL, input="And two?", previous_response_id=second.id)
    text = _text(_sent(upstream))
    assert "The price?" in text and "It costs 20 euros." in text


async def test_asynchronous_client_parses_streams_and_typed_answers(
    url: str, upstream: ProviderServer
) -> None:
    class Price(BaseModel):
        euros: int

    tools: Any = [{"type": "function", "function": _TOOL}]
    upstream.script[:] = [use("lookup", item="lamp"), say('{"euros": 20}'), say('{"euros": 40}')]
    async with AsyncOpenAI(base_url=url, api_key="key-async", max_retries=0) as client:
        question: Any = {"role": "user", "content": "ランプの値段は?"}
        async with client.chat.completions.stream(
            model=_MODEL, messages=[question], tools=tools, stream_options={"include_usage": True}
        ) as stream:
            completion = await stream.get_final_completion()
        (call,) = completion.choices[0].message.tool_calls or []
        assert (call.function.name, call.function.arguments) == ("lookup", '{"item": "lamp"}')
        assert completion.usage is not None and completion.usage.total_tokens > 0
        answer = await client.chat.completions.parse(
            model=_MODEL, messages=[question], response_format=Price
        )
        assert answer.choices[0].message.parsed == Price(euros=20)
        response = await client.responses.parse(model=_MODEL, input="Two?", text_format=Price)
        assert response.output_parsed == Price(euros=40)
    assert upstream.requests[-1].body["response_format"]["type"] == "json_schema"


def test_compaction_is_readable_and_can_be_continued(
    client: OpenAI, upstream: ProviderServer
) -> None:
    turns: list[Any] = [{"role": "user", "content": _RULE}, {"role": "assistant", "content": "OK."}]
    for turn in range(30):
        turns.append({"role": "user", "content": f"Lamp {turn} stands in room {turn}. " * 8})
        turns.append({"role": "assistant", "content": "I see."})
    compacted = client.responses.compact(model=_MODEL, input=turns)
    assert compacted.object == "response.compaction"
    (state,) = [item for item in compacted.output if item.type == "compaction"]
    assert _RULE in state.encrypted_content
    assert not upstream.requests
    items: Any = compacted.output
    client.responses.create(
        model=_MODEL, input=[*items, {"role": "user", "content": "What does it cost?"}]
    )
    assert _RULE in _text(_sent(upstream))
    question: Any = {"role": "user", "content": "And now?"}
    for _ in range(3):
        items = [*client.responses.compact(model=_MODEL, input=[*items, question]).output]
    (state,) = [item for item in items if item.type == "compaction"]
    assert state.encrypted_content.count("constraints:") == 1
    assert "<memory>" not in state.encrypted_content


def test_responses_survive_a_killed_process(upstream: ProviderServer, tmp_path: Path) -> None:
    options = ("--store", str(tmp_path / "memory.db"))
    upstream.script[:] = [say("Noted.")]
    with _proxy(upstream.url, *options) as (url, process):
        client = OpenAI(base_url=url, api_key="key", max_retries=0)
        response = client.responses.create(model=_MODEL, input="My dog is called Momo.")
        process.send_signal(signal.SIGKILL)
    with _proxy(upstream.url, *options) as (url, _):
        client = OpenAI(base_url=url, api_key="key", max_retries=0)
        client.responses.create(
            model=_MODEL, input="What is my dog called?", previous_response_id=response.id
        )
    assert "Momo" in _text(_sent(upstream))


def test_failed_calls_can_be_repeated(client: OpenAI, upstream: ProviderServer) -> None:
    upstream.script[:] = [say("Hello."), fail(429, "slow down", retry_after=3), say("Yes.")]
    first = client.responses.create(model=_MODEL, input="My dog is called Momo.")
    with pytest.raises(openai.RateLimitError) as caught:
        client.responses.create(model=_MODEL, input="Its name?", previous_response_id=first.id)
    assert caught.value.response.headers["retry-after"] == "3"
    client.responses.create(model=_MODEL, input="Its name?", previous_response_id=first.id)
    assert "Momo" in _text(_sent(upstream))


def test_stream_that_breaks_off_fails(client: OpenAI, upstream: ProviderServer) -> None:
    upstream.script[:] = [Reply(text="A long answer of several words", cut_after=2)]
    events = client.responses.create(model=_MODEL, input="Hello", stream=True)
    kinds = [event.type for event in events]
    assert kinds[-1] == "response.failed"
    for reply in (
        Reply(text="one two three four five", error_after=2),
        Reply(text="one two three four five", end_after=2),
    ):
        upstream.script[:] = [reply]
        events = client.responses.create(model=_MODEL, input="Hello", stream=True)
        assert [event.type for event in events][-1] == "response.failed"
    upstream.script[:] = [Reply(text="one two three four five", cut_after=2)]
    chat = client.chat.completions.create(
        model=_MODEL, messages=[{"role": "user", "content": "Hello"}], stream=True
    )
    with pytest.raises(openai.APIError, match="ended early"):
        list(chat)


@pytest.mark.parametrize(
    ("path", "body", "expected"),
    [
        ("chat/completions", b"[" * 100_000, "not valid JSON"),
        ("chat/completions", b"[]", "must be a JSON object"),
        ("chat/completions", b'{"messages": []}', "at least one message"),
        ("chat/completions", b'{"messages": [{"role": "root"}]}', "messages[0]"),
        ("chat/completions", b'{"messages": [{"role": "user", "content": 3}]}', "content"),
        ("chat/completions", b'{"messages": [{"role": "tool", "content": ""}]}', "tool_call_id"),
        (
            "chat/completions",
            b'{"messages": [{"role": "assistant", "tool_calls": [1]}]}',
            "tool_calls",
        ),
        ("responses", b'{"input": "x"}', "model"),
        ("responses", b'{"model": "m", "input": "x", "text": "x"}', "text must be"),
        ("responses", b'{"model": "m", "input": "x", "text": {"format": "x"}}', "text.format"),
        ("responses", b'{"model": "m", "input": "x", "reasoning": "x"}', "reasoning"),
        ("responses", b'{"model": "m", "input": []}', "at least one item"),
        ("responses", b'{"model": "m", "input": [{"type": "item_reference"}]}', "item_reference"),
        ("responses", b'{"model": "m", "input": "x", "background": true}', "background"),
        (
            "responses",
            b'{"model": "m", "input": "x", "tools": [{"type": "web_search"}]}',
            "web_search",
        ),
        (
            "responses",
            b'{"model": "m", "input": "x", "tool_choice": {"type": "custom", "name": "x"}, "tools":'
            b'[{"type": "function", "name": "x"}]}',
            "tool_choice",
        ),
        ("responses", b'{"model": "m", "input": "x", "previous_response_id": "no"}', "not stored"),
        (
            "responses",
            b'{"model": "m", "input": [{"type": "function_call_output", "output": "x"}]}',
            "call_id",
        ),
    ],
)
def test_invalid_requests_are_rejected(
    url: str, client: OpenAI, upstream: ProviderServer, path: str, body: bytes, expected: str
) -> None:
    response = httpx2.post(f"{url}/{path}", content=body, headers={"authorization": "Bearer x"})
    assert response.status_code == 400
    assert expected in response.json()["error"]["message"]
    assert not upstream.requests


def test_options_with_the_same_meaning_reach_the_server(
    client: OpenAI, upstream: ProviderServer
) -> None:
    same: dict[str, Any] = {
        "temperature": 0.2,
        "service_tier": "flex",
        "safety_identifier": "user-7",
        "prompt_cache_key": "desk",
    }
    others: dict[str, Any] = {
        "text": {"format": {"type": "json_object"}, "verbosity": "low"},
        "tools": [{"type": "function", **_TOOL}],
        "tool_choice": {
            "type": "allowed_tools",
            "mode": "required",
            "tools": [{"type": "function", "name": "lookup"}],
        },
    }
    client.responses.create(model=_MODEL, input="Hello?", **same, **others)
    body = upstream.requests[-1].body
    assert {name: body[name] for name in same} == same
    assert (body["verbosity"], body["response_format"]) == ("low", {"type": "json_object"})
    lookup = {"type": "function", "function": {"name": "lookup"}}
    allowed = {"mode": "required", "tools": [lookup]}
    assert body["tool_choice"] == {"type": "allowed_tools", "allowed_tools": allowed}


def test_greetings_and_notes_of_images_reach_the_server(
    client: OpenAI, upstream: ProviderServer
) -> None:
    greeting = {"role": "assistant", "content": "Hello, which order is it?"}
    first: list[Any] = [greeting, {"role": "user", "content": "4711"}]
    client.chat.completions.create(model=_MODEL, messages=first)
    assert _sent(upstream) == first
    headers = {"X-Acc-Session": "images"}
    image = {"type": "image_url", "image_url": {"url": "https://example.com/lamp.png"}}
    pictures: list[Any] = [{"role": "user", "content": [image]}]
    question: list[Any] = [{"role": "user", "content": "What was it?"}]
    for messages in (pictures, question):
        client.chat.completions.create(model=_MODEL, messages=messages, extra_headers=headers)
    users = [one["content"] for one in _sent(upstream) if one["role"] == "user"]
    assert users[-2:] == ["[image_url https://example.com/lamp.png]", "What was it?"]


def test_refusals_are_remembered(client: OpenAI, upstream: ProviderServer) -> None:
    refusal = {"role": "assistant", "content": None, "refusal": "I cannot sell that."}
    messages: list[Any] = [
        {"role": "user", "content": "Sell me poison."},
        refusal,
        {"role": "user", "content": "Why?"},
    ]
    client.chat.completions.create(model=_MODEL, messages=messages)
    assert "I cannot sell that." in _text(_sent(upstream))


def test_unknown_paths_have_the_form_of_the_api(url: str) -> None:
    for method, path, status in (("GET", "zzz", 404), ("GET", "chat/completions", 405)):
        response = httpx2.request(method, f"{url}/{path}")
        assert response.status_code == status
        assert response.json()["error"]["message"]


def test_concurrent_calls_of_a_session_do_not_exchange_answers(
    client: OpenAI, upstream: ProviderServer
) -> None:
    headers = {"X-Acc-Session": "busy"}

    def ask(text: str) -> None:
        client.chat.completions.create(
            model=_MODEL, messages=[{"role": "user", "content": text}], extra_headers=headers
        )

    def reply(request: Any) -> Reply:
        text = request.body["messages"][-1]["content"]
        return Reply(text=f"answer to {text}", delay=0.5 if text == "slow" else 0.0)

    upstream.script[:] = [reply] * 10
    slow = threading.Thread(target=ask, args=("slow",))
    slow.start()
    time.sleep(0.2)
    ask("quick")
    slow.join()
    ask("last")
    sent = _sent(upstream)
    quick = next(index for index, one in enumerate(sent) if one.get("content") == "quick")
    assert sent[quick + 1]["content"] == "answer to quick"
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(ask, [f"call {number}" for number in range(6)]))


def test_unreachable_server_and_wrong_token() -> None:
    with _proxy("http://127.0.0.1:9/v1", "--token", "env:PROXY_TOKEN") as (url, _):
        client = OpenAI(base_url=url, api_key="the-token-of-the-proxy", max_retries=0)
        with pytest.raises(openai.InternalServerError, match="cannot be reached"):
            client.chat.completions.create(
                model=_MODEL, messages=[{"role": "user", "content": "Hello"}]
            )
        with pytest.raises(openai.AuthenticationError):
            client.with_options(api_key="wrong").responses.create(model=_MODEL, input="Hello")


def test_invalid_options_are_rejected(capfd: pytest.CaptureFixture[str]) -> None:
    assert execute(["proxy", "--to", "ftp://user:secret@host"]) == 2
    error = capfd.readouterr().err
    assert "OpenAI-compatible" in error and "secret" not in error
    host = ("--host", "0.0.0.0")  # noqa: S104 - it is rejected
    assert execute(["proxy", "--to", "http://127.0.0.1:9/v1", *host, "--api-key", "k"]) == 2
    assert "--token" in capfd.readouterr().err


def test_unusable_store_prevents_the_start(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    damaged = tmp_path / "damaged.db"
    damaged.write_bytes(b"this is no database" * 400)
    for store in (tmp_path / "missing" / "memory.db", damaged):
        words = ["proxy", "--to", "http://127.0.0.1:9/v1", "--port", "0", "--store", str(store)]
        assert execute(words) == 1
        captured = capfd.readouterr()
        assert store.name in captured.err
        assert "OpenAI API at" not in captured.out


@pytest.mark.parametrize("endpoint", ["chat", "responses"])
def test_streams_in_progress_are_completed_after_sigterm(
    upstream: ProviderServer, endpoint: str
) -> None:
    words = "one two three four five six seven eight"
    upstream.script[:] = [Reply(text=words, event_delay=0.4)]
    with (
        _proxy(upstream.url) as (url, process),
        OpenAI(base_url=url, api_key="key", max_retries=0) as client,
    ):
        pieces: list[str] = []
        if endpoint == "chat":
            for chunk in client.chat.completions.create(
                model=_MODEL, messages=[{"role": "user", "content": "Count."}], stream=True
            ):
                if not pieces:
                    process.send_signal(signal.SIGTERM)
                pieces += [choice.delta.content or "" for choice in chunk.choices]
        else:
            for event in client.responses.create(model=_MODEL, input="Count.", stream=True):
                if event.type == "response.output_text.delta":
                    if not pieces:
                        process.send_signal(signal.SIGTERM)
                    pieces.append(event.delta)
            assert event.type == "response.completed"
        assert "".join(pieces) == words
        assert process.wait(20) in (0, -signal.SIGTERM)
