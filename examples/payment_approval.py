"""A payment of 10,000 yen or more waits for a person (section 9.1).

The tool says when it needs approval; then the run pauses and the process may end. Another process
opens the same SQLite file and goes on with what the person decided: yes, no, or other arguments.
You will see all three, and that saying yes twice pays once.

1万円以上の支払いは人の承認を待ちます。ツールが承認の要否を判断し、必要なら実行を一時停止します。
プロセスが終わっても、別のプロセスが同じSQLiteファイルから再開します。承認、却下、引数の修正の三通りと、
二度承認しても支払いは一度だけであることを確認できます。

Run it / 実行方法: python examples/payment_approval.py
"""

import asyncio
import re
import tempfile
from pathlib import Path

from acc import AccError, Agent, Prompt, Runner, ToolCall, approve, deny, tool
from acc.testing import ScriptedModel, call, last_result

PAID: list[int] = []  # the bank's side / 銀行側の記録

#: What the manager says, by session / 部長の判断（セッション別）
DECISIONS = {
    "yes": lambda request: approve(request.id, by="部長"),
    "no": lambda request: deny(request.id, "予算超過 / over budget", by="部長"),
    "less": lambda request: approve(
        request.id, arguments={**request.arguments, "amount": 20_000}, by="部長"
    ),
}


@tool(confirm=lambda arguments: arguments["amount"] >= 10_000)
def pay(payee: str, amount: int) -> str:
    """Pay an amount in yen. 円で支払います。"""
    PAID.append(amount)
    return f"{payee}に{amount:,}円を支払いました / {amount:,} yen paid"


def clerk(prompt: Prompt) -> ToolCall | str:
    """Do what a real model would: call the tool, then tell. 実際のモデルの代わりです。"""
    if not prompt.messages:
        return call("pay", payee="青葉商店", amount=int(re.findall(r"\d+", prompt.query)[0]))
    return str(last_result(prompt))


def open_office(store: Path) -> Runner:
    """Return what every process makes anew / プロセスごとに作り直します。"""
    payment_processor = Agent(
        name="payment_processor",
        model=ScriptedModel(clerk, repeat=True),
        instruction="支払い処理を担当します。You process payments.",
        tools=[pay],
    )
    return Runner(payment_processor, store=store)


async def ask(store: Path, session_id: str, message: str) -> str:
    """Run the first process; it ends while the payment waits / 最初のプロセス。"""
    office = open_office(store)
    result = await office.run(user_id="u1", session_id=session_id, message=message)
    await office.aclose()
    print(f"{session_id}: {message} → {result.status} {result.text}")
    return result.status


async def decide(store: Path, session_id: str) -> str:
    """Run the second process: find what waits, and go on / 二番目のプロセス。"""
    office = open_office(store)
    (request,) = await office.pending(user_id="u1", session_id=session_id)
    print(f"{session_id}: {request.message} {request.tool}{dict(request.arguments)}")
    answer = DECISIONS[session_id](request)
    result = await office.resume(user_id="u1", session_id=session_id, answers=[answer])
    print(f"  {answer.verdict} → {result.text}")
    try:
        await office.resume(user_id="u1", session_id=session_id, answers=[answer])
    except AccError as error:
        print(f"  again / もう一度 → {error.code}")
    await office.aclose()
    return result.text


async def main() -> None:
    """Pay a small amount, and three large ones with three decisions."""
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "sessions.db"
        assert await ask(store, "small", "9800円を支払って") == "completed"
        assert PAID == [9_800]
        for session_id in DECISIONS:
            assert await ask(store, session_id, "50000円を支払って") == "input_required"
        assert PAID == [9_800], "nothing is paid while it waits / 承認待ちの間は支払われない"
        said = {session_id: await decide(store, session_id) for session_id in DECISIONS}
    print(PAID)
    assert PAID == [9_800, 50_000, 20_000]
    assert "denied" in said["no"] and "予算超過" in said["no"]


if __name__ == "__main__":
    asyncio.run(main())
