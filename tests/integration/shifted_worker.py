"""A worker whose clock differs from that of the engine, and its agent.

Arguments: engine, store, app and the difference in seconds.
"""

import asyncio
import sys
import time

TTL_SECONDS = 3.0

if __name__ == "__main__":
    shift, _real_time = float(sys.argv[4]), time.time
    # Before anything of acc is imported: all of it reads this clock.
    time.time = lambda: _real_time() + shift

from acc import BaseAgent, RunContext, open_worker  # noqa: E402


class Asks(BaseAgent):
    async def run(self, ctx: RunContext) -> str:
        answer = await ctx.request_input("May I?", expires_after=TTL_SECONDS)
        return f"{answer.verdict.value}"


agent = Asks(name="root")


async def main(engine: str, store: str, app: str) -> None:
    async with open_worker(agent, engine=engine, store=store, app_name=app, grace=0.0):
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:4]))
