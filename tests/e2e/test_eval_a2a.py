"""`acc eval` of agents that `acc serve` serves in another process."""

import json
import socket
from pathlib import Path

from command import acc, start


def test_served_agent_gives_the_same_answers_as_the_built_in_agent(tmp_path: Path) -> None:
    (tmp_path / "remembering.py").write_text(
        "from acc import Agent\n\n"
        'desk = Agent(name="desk", memory="transcript", model="embedded")\n',
        encoding="utf-8",
    )
    process = start("serve", "remembering:desk", "--port", "0", cwd=tmp_path)
    assert process.stdout is not None
    try:
        url = process.stdout.readline().split()[-1]
        # ACC memory shows the dates of a session, and the turns of a built-in agent have no date.
        agents = f"baseline,theirs=a2a:{url}"
        options = ("--scenario", "it-operations", "--episodes", "2", "--workers", "1")
        done = acc("eval", *options, "--turns", "5", "--agents", agents, "--out", tmp_path / "run")
    finally:
        process.terminate()
        process.communicate(timeout=20)
    assert done.returncode == 0, done.stderr
    contexts = set()
    for episode in sorted((tmp_path / "run" / "episodes").glob("*.jsonl")):
        for line in episode.read_text(encoding="utf-8").splitlines():
            ours, theirs = json.loads(line)["agents"]
            assert theirs["answer"] == ours["answer"]
            assert theirs["memory_tokens"] == ours["memory_tokens"]
            contexts.add((episode.name, theirs["trace"]["context"]))
    assert len(contexts) == 2
    assert len({context for _, context in contexts}) == 2


def test_unreported_memory_of_a_served_agent_is_marked(everything: str, tmp_path: Path) -> None:
    options = ("--scenario", "it-operations", "--episodes", "1", "--turns", "3", "--workers", "1")
    agents = f"acc,theirs=a2a:{everything}"
    done = acc("eval", *options, "--agents", agents, "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    assert "not reported" in done.stdout
    summary = json.loads((tmp_path / "run" / "summary.json").read_text(encoding="utf-8"))
    assert summary["agents"]["theirs"]["memory_tokens"] is None
    compared = [row["metric"] for row in summary["paired"]]
    assert "outcome" in compared
    assert "memory_tokens" not in compared


SMALL = ("--scenario", "it-operations", "--episodes", "1", "--workers", "1")


def test_unreachable_agent_is_reported_before_the_first_turn(
    everything: str, tmp_path: Path
) -> None:
    for url, status, message in (
        ("http://127.0.0.1:9", 1, "`acc card http://127.0.0.1:9`"),
        ("http://10.255.255.1", 2, "--allow"),
        ("nowhere", 2, "not an absolute http or https URL"),
    ):
        out = tmp_path / "run"
        done = acc("eval", *SMALL, "--agents", f"acc,theirs=a2a:{url}", "--out", out)
        assert done.returncode == status, done.stderr
        assert message in done.stderr
        assert status == 2 or "agent 'theirs'" in done.stderr
        assert not out.exists()
    agents = f"acc,theirs=a2a:{everything}"
    for entry in ("http://x/y", "10.0.0.0/99", ""):
        done = acc(
            "eval", *SMALL, "--agents", agents, "--allow", entry, "--out", tmp_path / "other"
        )
        assert done.returncode == 2, entry
        assert "--allow" in done.stderr


def test_private_address_requires_the_allow_option(everything: str, tmp_path: Path) -> None:
    (tmp_path / "plain.py").write_text(
        'from acc import Agent\n\ndesk = Agent(name="desk", model="embedded")\n', encoding="utf-8"
    )
    # Its card names another server of this machine, whose address is not in the command.
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    options = ("--port", port, "--public-url", everything)
    process = start("serve", "plain:desk", *options, cwd=tmp_path)
    assert process.stdout is not None
    try:
        process.stdout.readline()
        agents = ("--turns", "2", "--agents", f"theirs=a2a:http://127.0.0.1:{port}")
        rejected = acc("eval", *SMALL, *agents, "--out", tmp_path / "run")
        allowed = ("--allow", "127.0.0.1")
        done = acc("eval", *SMALL, *agents, *allowed, "--out", tmp_path / "run")
    finally:
        process.terminate()
        process.communicate(timeout=20)
    assert rejected.returncode == 2
    assert "which is --allow here" in rejected.stderr
    assert done.returncode == 0, done.stderr


def test_missing_token_is_reported_before_the_first_turn(tmp_path: Path) -> None:
    assert acc("token", "add", tmp_path / "tokens.toml", "--caller", "me").returncode == 0
    (tmp_path / "plain.py").write_text(
        'from acc import Agent\n\ndesk = Agent(name="desk", model="embedded")\n', encoding="utf-8"
    )
    options = ("--port", "0", "--tokens", "tokens.toml")
    process = start("serve", "plain:desk", *options, cwd=tmp_path)
    assert process.stdout is not None
    try:
        url = process.stdout.readline().split()[-1]
        out = tmp_path / "run"
        done = acc("eval", *SMALL, "--agents", f"their-desk=a2a:{url}", "--out", out)
    finally:
        process.terminate()
        process.communicate(timeout=20)
    assert done.returncode == 1
    assert "set its token in ACC_TOKEN_THEIR_DESK" in done.stderr


def test_failing_agent_is_reported_after_the_run(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text(
        "calls = []\n\n\ndef never(query):\n    raise RuntimeError('out of \\x1b[31mpaper')\n\n\n"
        "def once(query):\n    calls.append(query)\n    if len(calls) == 2:\n"
        "        raise RuntimeError('jam')\n    return 'fine'\n",
        encoding="utf-8",
    )
    options = (*SMALL, "--turns", "3", "--quiet")
    agents = "acc,bad=python:broken:never"
    done = acc("eval", *options, "--agents", agents, "--out", tmp_path / "a", cwd=tmp_path)
    assert "agent bad failed in 3 of 3 turns; first error: " in done.stderr
    assert "paper" in done.stderr
    assert "\x1b" not in done.stderr
    agents = "acc,odd=python:broken:once"
    done = acc("eval", *options, "--agents", agents, "--out", tmp_path / "b", cwd=tmp_path)
    assert done.returncode == 0
    assert "agent odd failed in 1 of 3 turns; first error: " in done.stderr
