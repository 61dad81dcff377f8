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
    assert status == 1, errors  # one event failed
    assert output.startswith(f"shipping handles order.* from {store}")
    assert sorted(ledger.read_text().split()) == ["one", "二"]
    assert output.count("completed: shipped") == 2
    (failed,) = [line for line in output.splitlines() if ": dead letter" in line]
    status, output, _ = subscribe(store, "--until-idle", ledger=ledger)
    assert (status, output.count("\n")) == (0, 1)
    status, output, _ = subscribe(store, "--dead-letters", ledger=ledger)
    listed = output.splitlines()[0].partition(":")[0]
    assert (status, listed) == (0, failed.partition(":")[0])  # the same type and id
    key = listed.split()[1]
    assert "no stock" in output
    assert "1 dead letter\n" in output
    status, output, _ = subscribe(store, "--replay", key, ledger=ledger)
    assert (status, "no stock" in output) == (1, True)
    status, _, errors = subscribe(store, "--replay", "unknown", ledger=ledger)
    assert status == 2
    assert "--dead-letters" in errors
    status, output, _ = subscribe(store, "--discard", key, ledger=ledger)
    assert (status, output) == (0, "discarded 1 dead letter\n")
    status, output, _ = subscribe(store, "--dead-letters", ledger=ledger)
    assert (status, output) == (0, "0 dead letters\n")


def test_subscriber_ends_with_status_0_when_it_is_terminated(tmp_path: Path) -> None:
    command = ("subscribe", f"{AGENTS}:shipping", "--from", tmp_path / "shop.db", "--create")
    process = start(*command)
    assert process.stdout is not None
    try:
        assert "shipping handles *" in process.stdout.readline()
    finally:
        process.terminate()
        _, errors = process.communicate(timeout=20)
    assert (process.returncode, errors) == (0, "")


def test_mistyped_stores_are_errors_and_are_not_created(tmp_path: Path) -> None:
    store, ledger = tmp_path / "shpo.db", tmp_path / "ledger"
    for options in ((), ("--until-idle",), ("--dead-letters",), ("--replay", "all")):
        status, _, errors = subscribe(store, *options, ledger=ledger)
        assert (status, f"{store}: the file does not exist" in errors) == (1, True), errors
        assert "--create" in errors
    relayed = acc("relay", store, "--to", tmp_path / "other.db", "--until-idle")
    assert (relayed.returncode, f"{store}: the file" in relayed.stderr) == (1, True), relayed.stderr
    assert list(tmp_path.iterdir()) == []
    right = tmp_path / "shop.db"
    publish(right, "one")
    status, _, errors = subscribe(right, "--store", store, "--until-idle", ledger=ledger)
    assert (status, f"{store}: the file does not exist" in errors) == (1, True), errors
    relayed = acc("relay", right, "--to", store, "--until-idle")
    assert (relayed.returncode, f"{store}: the file" in relayed.stderr) == (1, True), relayed.stderr
    assert not store.exists()
    relayed = acc("relay", right, "--to", store, "--until-idle", "--create")
    assert (relayed.returncode, relayed.stdout.splitlines()[-1]) == (0, "sent 1 event")
