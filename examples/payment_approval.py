"""A payment of 10,000 yen or more needs approval (section 9.1).

The tool decides when it needs approval; then the run pauses and the process may end. Another
process opens the same SQLite file and resumes the run with the decision: approve, deny, or approve
with changed arguments. The example shows all three, and that a repeated approval pays only once.

1万円以上の支払いは人の承認を待ちます。ツールが承認の要否を判断し、必要なら実行を一時停止します。
プロセスが終わっても、別のプロセスが同じSQLiteファイルから再開します。承認、却下、引数の修正の三通りと、
二度承認しても支払いは一度だけであることを確認できます。

Run it / 実行方法: python examples/payment_approval.py
"""

import asyncio
import re
import tempfile
from pathlib import Path

from acc import AccError, Agent, ModelRequest, Runner, ToolCall, approve, deny, tool
from acc.testing import ScriptedModel, call, last_result

PAID: list[int] = []  # payments of the bank / 銀行側の記録

#: The decision of the manager by session / 部長の判断（セッション別）
DECISIONS = {
    "approve": lambda request: approve(request.id, by="部長"),
    "deny": lambda request: deny(request.id, "予算超過 / over budget", by="部長"),
    "reduce": lambda request: approve(
        request.id, arguments={**request.arguments, "amount": 20_000}, by="部長"
    ),
}


@tool(confirm=lambda arguments: arguments["amount"] >= 10_000)
def pay(payee: str, amount: int) -> str:
    """Pay an amount in yen. 円で支払います。"""
    PAID.append(amount)
    return f"{payee}に{amount:,}円を支払いました / {amount:,} yen paid"


def clerk(prompt: ModelRequest) -> ToolCall | str:
    """Return the response of the model / 実際のモデルの代わりです。"""
    if not prompt.following:
        return call("pay", payee="青葉商店", amount=int(re.findall(r"\d+", prompt.query)[0]))
    return str(last_result(prompt))


def make_runner(store: Path) -> Runner:
    """Return the runner of one process / プロセスごとに作成します。"""
    payment_processor = Agent(
        name="payment_processor",
        model=ScriptedModel(clerk, repeat=True),
        instruction="支払い処理を担当します。You process payments.",
        tools=[pay],
    )
    return Runner(payment_processor, store=store)


async def request_payment(store: Path, session_id: str, message: str) -> str:
    """Run the first process, which ends while the run waits / 最初のプロセス。"""
    runner = make_runner(store)
    result = await runner.run(user_id="u1", session_id=session_id, message=message)
    await runner.aclose()
    print(f"{session_id}: {message} → {result.status} {result.text}")
    return result.status


async def decide(store: Path, session_id: str) -> str:
    """Run the second process, which resumes the run / 二番目のプロセス。"""
    runner = make_runner(store)
    (request,) = await runner.pending(user_id="u1", session_id=session_id)
    print(f"{session_id}: {request.message} {request.tool}{dict(request.arguments)}")
    answer = DECISIONS[session_id](request)
    result = await runner.resume(user_id="u1", session_id=session_id, answers=[answer])
    print(f"  {answer.verdict} → {result.text}")
    try:
        await runner.resume(user_id="u1", session_id=session_id, answers=[answer])
    except AccError as error:
        print(f"  repeated / もう一度 → {error.code}")
    await runner.aclose()
    return result.text


async def main() -> None:
    """Pay a small amount and three large ones with three decisions."""
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "sessions.db"
        assert await request_payment(store, "small", "9800円を支払って") == "completed"
        assert PAID == [9_800]
        for session_id in DECISIONS:
            assert await request_payment(store, session_id, "50000円を支払って") == "input_required"
        assert PAID == [9_800], "nothing is paid before approval / 承認待ちの間は支払われない"
        texts = {session_id: await decide(store, session_id) for session_id in DECISIONS}
    print(PAID)
    assert PAID == [9_800, 50_000, 20_000]
    assert "denied" in texts["deny"] and "予算超過" in texts["deny"]


if __name__ == "__main__":
    asyncio.run(main())
