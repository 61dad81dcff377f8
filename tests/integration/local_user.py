"""A process of its own that uses the local model: `local_user.py MODEL answer|stream`."""

import asyncio
import json
import sys
from typing import Any

from acc import ModelRequest
from acc.bootstrap.models import make_model

NAME, WHAT = sys.argv[1:3]


def tell(**found: Any) -> None:
    """Report to whoever started this process."""
    sys.stdout.write(json.dumps(found) + "\n")
    sys.stdout.flush()


async def main() -> None:
    model: Any = make_model(NAME)
    if WHAT == "answer":
        answer = await model.complete(ModelRequest(query="Say hello."))
        tell(text=answer.text, url=model._lease.address().url)
        sys.stdin.readline()
        return
    async for piece in model.stream(ModelRequest(query="Count from one to one hundred.")):
        if isinstance(piece, str):
            tell(piece=piece, url=model._lease.address().url)


asyncio.run(main())
