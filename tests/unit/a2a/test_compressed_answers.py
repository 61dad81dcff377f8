"""Servers that compress what they answer, although they are asked not to."""

import asyncio
import gzip
import json
from typing import Any

import pytest
from foreign_server import Call, artifact, foreign, message, moved, piece, raw, task

from acc import RemoteAgent, Runner
from acc.domain.errors import InvalidResponse
from acc.domain.value_objects.task import Task, TaskState

GZIP = "Content-Encoding: gzip"
STREAM = (GZIP, "Content-Type: text/event-stream")


def packed(*items: Any, headers: tuple[str, ...] = (GZIP,)) -> Any:
    """Answer a JSON-RPC call with one item, or with several events, each compressed by itself."""

    async def answer(call: Call, writer: asyncio.StreamWriter) -> None:
        told = [{"jsonrpc": "2.0", "id": call.rpc["id"], "result": item} for item in items]
        lead, end = ("data: ", "\n\n") if headers is STREAM else ("", "")
        pieces = [gzip.compress(f"{lead}{json.dumps(one)}{end}".encode()) for one in told]
        await raw(b"".join(pieces), *headers)(call, writer)

    return answer


async def test_answers_and_streams_that_are_compressed_are_read() -> None:
    begun = {"task": task("WORKING")}
    story = packed(
        begun, piece("it "), piece("is", append=True), moved("COMPLETED"), headers=STREAM
    )
    whole = packed({"task": task("COMPLETED", artifact("it is"))})
    for handler, streaming in ((story, True), (whole, False)):
        async with foreign(handler, streaming=streaming) as here:
            here.card = gzip.compress(json.dumps(here.own_card()).encode())
            here.card_headers = (GZIP,)
            found = await here.client().send(message())
            assert isinstance(found, Task)
            assert found.state is TaskState.COMPLETED
            agent = RemoteAgent(name="far", url=here.url, allow=("127.0.0.1",))
            done = await Runner(agent).run(user_id="u", session_id="s", message="x")
            assert done.text == "it is"


async def test_an_encoding_that_is_not_known_is_named_and_the_call_not_repeated() -> None:
    async with foreign(raw(b"x", "Content-Encoding: zstd")) as here:
        with pytest.raises(InvalidResponse, match="Content-Encoding zstd, which cannot"):
            await here.client().send(message())
        assert len(here.methods) == 1
