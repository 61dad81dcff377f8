"""An agent for the official A2A conformance tests (TCK) of versions 1.0 and 0.3.

The tests choose the behaviour of the agent by the id of their message. Serve the agent and run the
TCK branch 1.0-dev or 0.3.x; docs/a2a.md has the settings and the results. Without arguments this
program serves the agent itself, runs a few scenarios and exits.

公式の A2A 適合性テスト（TCK）が求める振る舞いをするエージェントです。
テストはメッセージの ID で動作を指定します。
サーバーとして起動し、TCK の 1.0-dev または 0.3.x ブランチを実行できます。設定と結果は
docs/a2a.md にあります。
引数なしで実行すると、自分でサーバーを起動していくつかのシナリオを試し、終了します。

Run it / 実行方法: python examples/conformance_agent.py
Serve it / 起動方法:
    acc serve conformance_agent:agent --port 9999 --no-deduplication
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import httpx2

from acc import BaseAgent, Part, RunContext
from acc.a2a import create_app

OUTPUT = "output.txt"
Scenario = Callable[[RunContext], Awaitable[str | None]]


@dataclass(kw_only=True, eq=False)
class ConformanceAgent(BaseAgent):
    """Runs the scenario of the message id / メッセージ ID の指示どおりに動きます。"""

    input_modes = ("*/*",)
    output_modes = ("text/plain", "application/json")
    replies_directly = True

    async def run(self, ctx: RunContext) -> str | None:
        """Choose the scenario by the longest prefix / 最も長く一致する接頭辞で選びます。"""
        name = ctx.call.message_id
        scenario = max(
            (prefix for prefix in SCENARIOS if name.startswith(prefix)), key=len, default=""
        )
        return await SCENARIOS[scenario](ctx)


async def complete(ctx: RunContext) -> str:
    """Complete with a text / テキストで完了します。"""
    return "Hello from TCK"


async def reply(ctx: RunContext) -> None:
    """Reply with a message instead of a task / タスクなしでメッセージだけ返します。"""
    await ctx.reply("Direct message response")


async def reject(ctx: RunContext) -> None:
    """Reject the task / タスクを断ります。"""
    ctx.reject("rejected")


async def wait_for_input(ctx: RunContext) -> str:
    """Ask until a message requests completion / 完了の指示が来るまで尋ねます。"""
    while True:
        answer = await ctx.request_input("Please continue.")
        if answer.message_id.startswith("tck-") and not answer.message_id.startswith(WAITING):
            return "Hello from TCK"


async def long_work(ctx: RunContext) -> str:
    """Work long enough for a subscription / 再購読できる長さだけ作業します。"""
    await ctx.progress("working")
    await asyncio.sleep(4.0)
    return "done"


def publish(*parts: Part | str, working: bool = False) -> Scenario:
    """Return a scenario that publishes an artifact / 成果物を一つ渡すシナリオを返します。"""

    async def scenario(ctx: RunContext) -> None:
        if working:
            await ctx.progress("working")
        await ctx.artifacts.publish("result", *parts)

    return scenario


async def chunks(ctx: RunContext) -> None:
    """Publish one artifact in two chunks / 成果物を二つに分けて渡します。"""
    await ctx.artifacts.publish("result", "chunk-1 ", last=False)
    await ctx.artifacts.publish("result", "chunk-2", append=True)


async def nothing(ctx: RunContext) -> None:
    """Complete without output / ほかに何もせず完了します。"""


TEXT_FILE = Part(raw=b"file content", filename=OUTPUT, media_type="text/plain")
FILE_URL = Part(url=f"https://example.com/{OUTPUT}", filename=OUTPUT, media_type="text/plain")
WAITING = "tck-input-required"
SCENARIOS: dict[str, Scenario] = {
    "": wait_for_input,
    "tck-": complete,
    "tck-message-response": reply,
    "tck-reject-task": reject,
    WAITING: wait_for_input,
    "tck-artifact-text": publish("Generated text content"),
    "tck-artifact-file": publish(TEXT_FILE),
    "tck-artifact-file-url": publish(FILE_URL),
    "tck-artifact-data": publish(Part(data={"key": "value", "count": 42})),
    "tck-stream-001": publish("Stream hello from TCK", working=True),
    "tck-stream-002": nothing,
    "tck-stream-003": publish("Stream task lifecycle", working=True),
    "tck-stream-ordering-001": publish("Ordered output", working=True),
    "tck-stream-artifact-text": publish("Streamed text content", working=True),
    "tck-stream-artifact-file": publish(TEXT_FILE, working=True),
    "tck-stream-artifact-chunked": chunks,
    "test-resubscribe-message-id": long_work,
}

agent = ConformanceAgent(
    name="conformance",
    description="Agent for the official A2A conformance tests. TCK の求めるとおりに動きます。",
)


async def call(client: httpx2.AsyncClient, method: str, **params: Any) -> Any:
    """Call a method of A2A 1.0 / A2A 1.0 のメソッドを呼び出します。"""
    request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    answer = (await client.post("/", json=request)).json()
    return answer.get("result", answer.get("error"))


def message(message_id: str, **more: str) -> dict[str, Any]:
    """Return a message of the tests / テストと同じ形のメッセージを返します。"""
    return {"messageId": message_id, "role": "ROLE_USER", "parts": [{"text": "hello"}], **more}


async def run_scenarios(client: httpx2.AsyncClient) -> None:
    """Run a few scenarios / いくつかのシナリオを試します。"""
    parts = {}
    for name in ("tck-artifact-file-url", "tck-artifact-data", "tck-message-response"):
        result = await call(client, "SendMessage", message=message(f"{name}-1"))
        container = result.get("message") or result["task"]["artifacts"][0]
        parts[name] = container["parts"][0]
        print(f"{name}: {parts[name]}")
    assert parts["tck-artifact-file-url"]["url"] == "https://example.com/output.txt"
    assert parts["tck-artifact-data"]["data"] == {"key": "value", "count": 42}
    assert parts["tck-message-response"]["text"] == "Direct message response"

    paused = (await call(client, "SendMessage", message=message("tck-input-required-1")))["task"]
    more = message("tck-complete-task-1", taskId=paused["id"])
    done = (await call(client, "SendMessage", message=more))["task"]
    print(f"{WAITING}: {paused['status']['state']}, then {done['status']['state']}")
    assert paused["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    assert (done["id"], done["status"]["state"]) == (paused["id"], "TASK_STATE_COMPLETED")

    error = await call(client, "CancelTask", id=done["id"])
    print(f"CancelTask: {error['code']} {error['message']}")
    assert error["code"] == -32002


async def main() -> None:
    """Serve the agent in this process and call it / 同じプロセスで起動して呼び出します。"""
    server = create_app(agent, public_url="http://tck", push=False)
    headers = {"A2A-Version": "1.0"}
    transport = httpx2.ASGITransport(server)
    async with (
        server.serve.open(),
        httpx2.AsyncClient(transport=transport, base_url="http://tck", headers=headers) as client,
    ):
        await run_scenarios(client)


if __name__ == "__main__":
    asyncio.run(main())
