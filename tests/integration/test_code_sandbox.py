"""Hostile code in the sandbox, in real processes."""

import asyncio
import os
from pathlib import Path

import pytest

from acc import Agent, CodeEnd, CodeResult, InvalidInput, Runner, SandboxedCodeExecutor
from acc.adapters.code.sandbox_process import missing_feature
from acc.testing import ScriptedModel, call

pytestmark = pytest.mark.skipif(bool(missing_feature()), reason=missing_feature() or "available")


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


async def execute(code: str, **limits: float) -> CodeResult:
    return await SandboxedCodeExecutor(**limits).execute(code, files={})  # type: ignore[arg-type]


async def test_output_status_and_files_are_returned() -> None:
    code = "import sys; print('こんにちは'); open('a.txt', 'w').write('x'); sys.exit(3)"
    result = await execute(code)
    assert (result.ended, result.exit_status, result.stdout) == (CodeEnd.EXITED, 3, "こんにちは\n")
    assert result.files == {"a.txt": b"x"}


async def test_error_shows_the_line_of_the_code() -> None:
    result = await execute("x = 1\nx / 0\n")
    assert result.exit_status == 1
    assert 'File "code.py", line 2' in result.stderr
    assert "sandbox_process" not in result.stderr


@pytest.mark.parametrize(
    "code",
    [
        "import os\nwhile True: os.fork()",
        "import subprocess\nsubprocess.Popen(['/bin/sleep', '60'])",
        "import os\nos.execv('/bin/sh', ['sh'])",
        "import multiprocessing\nmultiprocessing.Process(target=print).start()",
        "import socket\nsocket.socket()",
        "import socket\nsocket.socketpair()",
        "import os\nos.kill(os.getppid(), 9)",
        "import os\nopen(f'/proc/{os.getppid()}/environ').read()",
        "open('/proc/self/environ').read()",
        "open('/etc/passwd').read()",
        "import os\nos.listdir('/tmp')",
        "import resource, os\nresource.prlimit(os.getppid(), resource.RLIMIT_CPU, (1, 1))",
        "import os\nos.setpriority(os.PRIO_PROCESS, os.getppid(), 19)",
        "x = bytearray(1 << 30)",
    ],
)
async def test_denied_operation_raises_in_the_code(code: str) -> None:
    result = await execute(code)
    assert (result.ended, result.exit_status) == (CodeEnd.EXITED, 1)
    assert "PermissionError" in result.stderr or "MemoryError" in result.stderr


async def test_environment_has_no_variable_of_the_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret-of-the-parent")
    result = await execute("import os; print(sorted(os.environ))")
    assert result.stdout == "['HOME', 'LANG', 'TMPDIR']\n"


async def test_nothing_outside_the_working_directory_can_be_changed(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("before")
    file.chmod(0o644)
    stamp = file.stat().st_mtime_ns
    for statement in (
        f"open({str(file)!r}, 'w')",
        f"os.truncate({str(file)!r}, 0)",
        f"os.unlink({str(file)!r})",
        f"os.rename({str(file)!r}, 'stolen')",
        f"os.symlink({str(file)!r}, 'link'); open('link', 'a').write('x')",
        f"os.link({str(file)!r}, 'hard')",
        f"os.chmod({str(file)!r}, 0)",
        f"os.utime({str(file)!r}, (0, 0))",
        f"open({str(tmp_path / 'new')!r}, 'w')",
        f"os.mkdir({str(tmp_path / 'folder')!r})",
    ):
        await execute(f"import os\n{statement}")
    assert file.read_text() == "before"
    assert (file.stat().st_mode & 0o777, file.stat().st_mtime_ns) == (0o644, stamp)
    assert names_in(tmp_path) == ["a.txt"]


async def test_link_to_a_file_outside_is_not_returned(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("x")
    result = await execute(f"import os; os.symlink({str(secret)!r}, 'link')")
    assert result.files == {}


@pytest.mark.parametrize(
    ("code", "limits", "ended"),
    [
        ("while True: pass", {"cpu_seconds": 1, "timeout": 60}, CodeEnd.CPU_LIMIT),
        ("import time; time.sleep(60)", {"timeout": 0.5}, CodeEnd.TIME_LIMIT),
        ("while True: print('x' * 1000)", {"output_bytes": 5000}, CodeEnd.OUTPUT_LIMIT),
        (
            "import time\nfor n in range(20): open(f'{n}', 'w').write('x' * 100_000)\n"
            "time.sleep(60)",
            {"file_bytes": 500_000, "timeout": 60},
            CodeEnd.FILE_LIMIT,
        ),
    ],
)
async def test_violated_limit_ends_the_process(
    code: str, limits: dict[str, float], ended: CodeEnd
) -> None:
    result = await execute(code, **limits)
    assert result.ended is ended
    assert result.exit_status is None
    assert len(result.stdout) <= 5000


async def test_one_file_cannot_exceed_the_limit() -> None:
    result = await execute("open('a', 'wb').write(bytes(3_000_000))", file_bytes=1_000_000)
    assert "File too large" in result.stderr


async def test_threads_are_bounded_by_the_memory_limit() -> None:
    code = (
        "import threading, time\n"
        "for _ in range(10_000):\n"
        "    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()"
    )
    result = await execute(code)
    assert result.ended is CodeEnd.EXITED
    assert "can't start new thread" in result.stderr


def children() -> str:
    return Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().strip()


async def test_canceled_execution_leaves_no_process_and_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = children()  # servers that other tests share
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.7):
            await SandboxedCodeExecutor(timeout=600).execute(
                "import time; time.sleep(600)", files={}
            )
    assert children() == before
    assert names_in(tmp_path) == []


@pytest.mark.parametrize("name", ["../x", "/etc/x", ""])
async def test_input_file_outside_the_working_directory_is_rejected(name: str) -> None:
    with pytest.raises(InvalidInput, match="not the name of a file in the working directory"):
        await SandboxedCodeExecutor().execute("", files={name: b""})


async def test_agent_executes_code_with_artifacts() -> None:
    model = ScriptedModel(
        call("run_python", code="open('sum.csv', 'w').write('1,2')"),
        call("run_python", code="print(open('sum.csv').read())", files=["sum.csv"]),
        call("run_python", code="", files=["missing.csv"]),
        "Done.",
    )
    runner = Runner(Agent(name="a", model=model, code_executor=SandboxedCodeExecutor()))
    result = await runner.run("Add.")
    first, second, third = [event.result for event in result.events if event.result]
    assert first.content["files"] == ["sum.csv"]
    assert second.content["stdout"] == "1,2\n"
    assert third.is_error
    assert "artifacts: sum.csv" in str(third.content)
    stored = await runner.load_artifact("sum.csv")
    assert stored is not None
    assert (stored.data, stored.media_type) == (b"1,2", "text/csv")


@pytest.mark.parametrize("limits", [{"timeout": "5"}, {"memory_bytes": 0}, {"cpu_seconds": True}])
def test_invalid_limit_is_rejected(limits: dict[str, float]) -> None:
    with pytest.raises(InvalidInput, match="must be a number greater than 0"):
        SandboxedCodeExecutor(**limits)  # type: ignore[arg-type]


async def test_deeply_nested_folders_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    code = "import os\nfor i in range(3000):\n    os.mkdir('d')\n    os.chdir('d')\nprint('deep')"
    result = await execute(code)
    assert result.stdout == "deep\n"
    assert names_in(tmp_path) == []


async def test_file_for_all_sessions_is_not_saved() -> None:
    code = "open('user:x', 'w').write('evil'); open('a.txt', 'w').write('x')"
    model = ScriptedModel(call("run_python", code=code), "done")
    agent = Agent(name="a", model=model, code_executor=SandboxedCodeExecutor(), memory=None)
    runner = Runner(agent)
    result = await runner.run("compute", session_id="s1")
    (content,) = [event.result.content for event in result.events if event.result is not None]
    assert isinstance(content, dict)
    assert (content["files"], content["unsaved_files"]) == (["a.txt"], ["'user:x'"])
    assert await runner.load_artifact("user:x", session_id="s2") is None
