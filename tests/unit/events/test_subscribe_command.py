"""Options of `acc subscribe` and `acc relay`."""

from pathlib import Path

import pytest

from acc.cli import execute

AGENT = str(Path(__file__).parents[2] / "integration" / "event_agents.py") + ":shipping"


@pytest.mark.parametrize(
    ("source", "options", "text"),
    [
        ("kafka://broker:9092", (), "events cannot be carried by 'kafka'"),
        ("nats://127.0.0.1:4222", (), "--store"),
        ("shop.db", ("--events", "order created"), "patterns of event types"),
        ("shop.db", ("--name", "a b"), "name of a subscription"),
        ("shop.db", ("--concurrency", "0"), "at least 1"),
        ("shop.db", ("--dead-letters", "--replay", "all"), "--dead-letters"),
        ("shop.db", ("--discard", "all", "--replay", "all"), "--discard"),
    ],
)
def test_invalid_options_are_refused_with_advice(
    source: str,
    options: tuple[str, ...],
    text: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    place = source if "://" in source else str(tmp_path / source)
    assert execute(["subscribe", AGENT, "--from", place, "--create", *options]) == 2
    assert text in " ".join(capsys.readouterr().err.split())


def test_relay_reads_from_a_store_only(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["relay", "nats://127.0.0.1:4222", "--to", "valkey://127.0.0.1"]) == 2
    assert "name a SQLite file" in " ".join(capsys.readouterr().err.split())
