"""`acc subscribe` as a process."""

from pathlib import Path

from command import SERVED_AGENTS, acc, start

AGENTS = str(SERVED_AGENTS / "event_agents.py")


def publish(store: Path | str, words: str) -> None:
    result = acc("run", f"{AGENTS}:sales", words, "--store", store)
    assert result.returncode == 0, result.stderr


def subscribe(store: Path | str, *options: str | Path, ledger: Path) -> tuple[int, str, str]:
    command = ("subscribe", f"{AGENTS}:shipping", "--events", "order.*", "--from", store, *options)
    result = acc(*command, LEDGER=str(ledger))
    return result.returncode, result.stdout, result.stderr


def test_agent_handles_events_of_a_store_once_and_failures_are_replayed(tmp_path: Path) -> None:
    store, ledger = tmp_path / "shop.db", tmp_path / "ledger"
    publish(store, "one 二 bad")
    status, output, errors = subscribe(store, "--until-idle", ledger=ledger)
    assert status == 0, errors
    assert output.startswith(f"shipping handles order.* from {store}")
    assert sorted(ledger.read_text().split()) == ["one", "二"]
    assert output.count("completed: shipped") == 2
    assert "dead letter" in output
    status, output, _ = subscribe(store, "--until-idle", ledger=ledger)
    assert (status, output.count("\n")) == (0, 1)
    status, output, _ = subscribe(store, "--dead-letters", ledger=ledger)
    key, event_type, *_ = output.split()
    assert (status, event_type) == (0, "order.created:")
    assert "no stock" in output
    assert "1 dead letters" in output
    status, output, _ = subscribe(store, "--replay", key, ledger=ledger)
    assert (status, "no stock" in output) == (1, True)
    status, _, errors = subscribe(store, "--replay", "unknown", ledger=ledger)
    assert status == 2
    assert "--dead-letters" in errors


def test_subscriber_ends_with_status_0_when_it_is_terminated(tmp_path: Path) -> None:
    process = start("subscribe", f"{AGENTS}:shipping", "--from", tmp_path / "shop.db")
    assert process.stdout is not None
    try:
        assert "shipping handles *" in process.stdout.readline()
    finally:
        process.terminate()
        _, errors = process.communicate(timeout=20)
    assert (process.returncode, errors) == (0, "")
