"""An answer belongs to the call that was made, and to no other."""

import asyncio
import json
from dataclasses import replace

import pytest
from foreign_server import Call, Handler, fault, foreign, message, raw, result, stream, task

from acc.domain.errors import InvalidInput, RemoteFailed


def _other(handler: Handler) -> Handler:
    """Answer as if another call had been made."""

    async def answer(call: Call, writer: asyncio.StreamWriter) -> None:
        body = json.dumps({**call.rpc, "id": 99}).encode()
        await handler(replace(call, body=body), writer)

    return answer


@pytest.mark.parametrize(
    "answer", [result({"task": task()}), stream({"task": task()}), fault(-32602)]
)
async def test_an_answer_to_another_call_is_refused(answer: Handler) -> None:
    async with foreign(_other(answer)) as server:
        with pytest.raises(RemoteFailed, match="id of another request"):
            await server.client(retries=0).send(message())


async def test_a_fault_without_an_id_is_taken_as_ours() -> None:
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": -32602, "message": "unreadable"}}
    answer = raw(json.dumps(error).encode(), "Content-Type: application/json")
    async with foreign(answer) as server:
        with pytest.raises(InvalidInput, match="unreadable"):
            await server.client(retries=0).send(message())
