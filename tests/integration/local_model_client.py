"""Use the local model in a separate process: `local_model_client.py MODEL answer|stream`."""

import asyncio
import json
import sys
from typing import Any

from acc import ModelRequest
from acc.bootstrap.models import make_model

NAME, COMMAND = sys.argv[1:3]


def print_line(**fields: Any) -> None:
    """Print a JSON line for the parent process."""
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


async def main() -> None:
    model: Any = make_model(NAME)
    if COMMAND == "answer":
        answer = await model.complete(ModelRequest.of("Say hello."))
        print_line(text=answer.text, url=model._lease.address().url)
        sys.stdin.readline()
        return
    async for piece in model.stream(ModelRequest.of("Count from one to one hundred.")):
        if isinstance(piece, str):
            print_line(piece=piece, url=model._lease.address().url)


asyncio.run(main())
