"""A remote agent as a sub-agent, including its requests for approval (sections 6 and 8).

A payment agent is served over A2A by its own process. In this tree it is a sub-agent: the next
agent gets its answer, and when it needs approval, the local run pauses with the same request. The
request is stored, so another process can answer it.

別サーバーのAgentを、自分のツリーの一員として使います。支払いAgentはA2Aで別プロセスとして動いています。
ここでは普通のサブAgentと同じです。その回答は次のAgentに伝わり、承認が必要になると、こちらの実行が同じ質問で
一時停止します。回答は別のプロセスからでもできます。

Run it / 実行方法: python examples/remote_agent.py
"""

import asyncio
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from acc import Agent, ModelRequest, RemoteAgent, Runner, SequentialAgent, ToolCall, approve, tool
from acc.testing import ScriptedModel, call, last_result


@tool(confirm=lambda arguments: arguments["amount"] >= 10_000)
def pay(amount: int) -> str:
    """Pay an amount in yen. 円で支払います。"""
    return f"{amount:,}円を支払いました / {amount:,} yen paid"


def clerk(prompt: ModelRequest) -> ToolCall | str:
    """Return the response of the model / 実際のモデルの代わりです。"""
    if not prompt.following:
        return call("pay", amount=int(re.findall(r"\d+", prompt.query)[0]))
    return str(last_result(prompt))


#: The agent of the other server / 相手のサーバーが提供するAgent
payment = Agent(
    name="payment",
    description="Pays invoices. 請求書を支払います。",
    model=ScriptedModel(clerk, repeat=True),
    tools=[pay],
)


@contextmanager
def serve_payment() -> Iterator[str]:
    """Serve the payment agent and yield its URL / 支払いAgentを起動し、URLを返します。"""
    command = [sys.executable, "-m", "acc", "serve", "remote_agent:payment", "--port", "0"]
    folder = Path(__file__).parent
    with subprocess.Popen(  # noqa: S603 - our own command
        command, cwd=folder, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().split()[-1]
        finally:
            process.terminate()


def report(prompt: ModelRequest) -> str:
    """Return the answer of the remote agent as a report / 相手の回答を報告します。"""
    (answer,) = (message for message in prompt.following if message.role == "assistant")
    return f"報告 / report: {answer.text}"


def make_runner(url: str, store: Path) -> Runner:
    """Return the runner of the local tree / こちら側のツリー。

    Addresses that are not public, such as those of this machine, must be allowed.
    自分のマシンのアドレスには許可が必要です。公開アドレスには不要です。
    """
    reporter = Agent(
        name="reporter",
        model=ScriptedModel(report),
    )
    remote = RemoteAgent(name="payment", url=url, description="Pays.", allow=["127.0.0.1"])
    return Runner(SequentialAgent(name="office", sub_agents=[remote, reporter]), store=store)


async def main(url: str, store: Path) -> None:
    """Pause in one runner and resume in another / 依頼し、別のプロセスとして回答します。"""
    first = make_runner(url, store)
    paused = await first.run(user_id="ann", session_id="s1", message="pay 50000")
    (request,) = paused.requests
    print(f"request / 質問: {request.message} {request.tool} {dict(request.arguments)}")
    assert (request.tool, request.arguments) == ("pay", {"amount": 50_000})
    await first.aclose()

    second = make_runner(url, store)
    answer = approve(request.id, arguments={"amount": 20_000}, by="部長")
    done = await second.resume(user_id="ann", session_id="s1", answers=[answer])
    print(f"{done.answered_by}: {done.text}")
    assert done.text == "報告 / report: 20,000円を支払いました / 20,000 yen paid"
    await second.aclose()


if __name__ == "__main__":
    with serve_payment() as address, tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(address, Path(folder) / "sessions.db"))
