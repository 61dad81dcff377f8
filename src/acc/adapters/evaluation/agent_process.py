"""The process of one Python agent of an evaluation.

`python -m acc.adapters.evaluation.agent_process MODULE:NAME` reads requests from standard input and
writes replies to what was its standard output; the output of the agent goes to standard error. It
ends when its input ends, also if the agent is blocked.
"""

import asyncio
import json
import os
import pickle
import struct
import sys
import threading
from typing import Any, BinaryIO, NoReturn

from acc.adapters.evaluation.agents import make_runner
from acc.adapters.system.object_loader import load_object
from acc.application.agents.base import BaseAgent
from acc.domain.errors import InvalidInput
from acc.domain.value_objects.live_evaluation import AgentTurnResponse

#: Length of a message as 8 bytes, then the message.
HEADER = struct.Struct(">Q")
#: A longer answer fails its turn, in characters.
MAX_ANSWER_LENGTH = 1_000_000
#: A larger reply is not from this module, in bytes.
MAX_REPLY_SIZE = 64 * 1024 * 1024


def _read(source: BinaryIO) -> Any:
    """Return the next request; end the process if there is none."""
    header = source.read(HEADER.size)
    if len(header) < HEADER.size:
        # The parent is gone or needs no more answers. The agent may block every other way out.
        os._exit(0)
    (size,) = HEADER.unpack(header)
    return pickle.loads(source.read(size))  # noqa: S301 - written by the parent process


def _reply_data(response: AgentTurnResponse | None) -> dict[str, Any]:
    if response is None:
        return {}
    if not isinstance(response.response_text, str):
        kind = type(response.response_text).__name__
        return {"error": f"the answer must be str, got {kind}"}
    if len(response.response_text) > MAX_ANSWER_LENGTH:
        length = len(response.response_text)
        return {"error": f"the answer has {length} characters, the limit is {MAX_ANSWER_LENGTH}"}
    return {
        "text": response.response_text,
        "memory_tokens": response.memory_tokens,
        "trace": dict(response.trace),
        "error": response.error,
    }


def _encode(data: dict[str, Any]) -> bytes:
    try:
        return json.dumps(data).encode()
    except (TypeError, ValueError, RecursionError) as error:
        # The trace is for people; an answer counts without it.
        reason = f"not stored: {type(error).__name__}"
        return json.dumps({**data, "trace": {"trace": reason}}).encode()


def _refuse_tree(name: str, agent: BaseAgent) -> NoReturn:
    raise InvalidInput(f"agent tree {agent.name!r} does not run in a process of its own")


async def _no_turn() -> None:
    """Answer the request that only loads the agent."""


async def _serve(reference: str, source: BinaryIO, replies: BinaryIO) -> None:
    requests: asyncio.Queue[Any] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def read_requests() -> None:
        while True:
            loop.call_soon_threadsafe(requests.put_nowait, _read(source))

    runner: Any = None
    threading.Thread(target=read_requests, daemon=True).start()
    while True:
        operation, arguments = await requests.get()
        try:
            if runner is None:
                runner = make_runner(
                    "agent", reference, load_object(reference), run_agent=_refuse_tree
                )
            calls = {"run": runner.run_turn, "replay": runner.replay_turn, "load": _no_turn}
            data = _reply_data(await calls[operation](*arguments))
        # The agent is third-party code. Its error, and its exit, are the result of the turn.
        except BaseException as error:  # noqa: BLE001
            data = {"error": f"{type(error).__name__}: {str(error)[:MAX_ANSWER_LENGTH]}"}
        reply = _encode(data)
        replies.write(HEADER.pack(len(reply)) + reply)
        replies.flush()


def main() -> None:
    """Serve one agent until the input ends."""
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    source = os.fdopen(os.dup(0), "rb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    asyncio.run(_serve(sys.argv[1], source, replies))


if __name__ == "__main__":
    main()
