"""A framework's agent whose process dies after a tool has started."""

import subprocess
import sys
from pathlib import Path

import pytest

import acc

PROGRAM = """
import asyncio, os
import acc
from acc.application.agents.framework import FrameworkAgent, FrameworkResult

class Dying(FrameworkAgent):
    framework = "dying"

    async def invoke(self, turn, events):
        if turn.message == "pay":
            events.tool_started("1", "pay", {})
            await asyncio.sleep(0.3)  # the call is recorded meanwhile
        if os.environ.get("DIE"):
            os._exit(3)
        return FrameworkResult(answer="done", checkpoint=1)

agent = Dying(name="clerk")
runner = acc.Runner(agent, store="sessions.db")
if __name__ == "__main__":
    import sys
    runner.run_sync(sys.argv[1])
"""


def die(folder: Path, message: str) -> None:
    (folder / "dying_clerk.py").write_text(PROGRAM, encoding="utf-8")
    died = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "dying_clerk.py", message],
        cwd=folder,
        env={"DIE": "1", "PATH": ""},
        check=False,
    )
    assert died.returncode == 3


@pytest.mark.parametrize(("message", "is_repeated"), [("pay", False), ("look", True)])
async def test_interrupted_call_is_repeated_only_if_no_tool_had_started(
    message: str, is_repeated: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    die(tmp_path, message)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "dying_clerk", raising=False)
    import dying_clerk  # type: ignore[import-not-found]

    try:
        if is_repeated:
            assert (await dying_clerk.runner.resume()).text == "done"
        else:
            with pytest.raises(acc.AgentFailed, match="outcome is unknown"):
                await dying_clerk.runner.resume()
    finally:
        await dying_clerk.runner.aclose()
        sys.modules.pop("dying_clerk", None)
