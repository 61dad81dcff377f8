"""Options of `acc subscribe` and `acc relay`."""

import asyncio
from pathlib import Path

import pytest

from acc.bootstrap.events import make_publisher
from acc.cli import execute
from acc.domain.value_objects.cloud_event import CloudEvent

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


def test_relay_of_a_store_to_itself_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = str(tmp_path / "shop.db")
    command = ["relay", store, "--to", f"sqlite:///{store}", "--create", "--until-idle"]
    assert execute(command) == 2
    assert "name another carrier" in " ".join(capsys.readouterr().err.split())


def test_dead_letters_of_two_sources_with_the_same_id_are_distinguished(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = str(tmp_path / "shop.db")
    asyncio.run(_publish(store, sources=("/shops/1", "/shops/2")))
    command = ["subscribe", AGENT, "--from", store]
    assert execute([*command, "--until-idle", "--create"]) == 1  # the runs of both fail
    capsys.readouterr()
    assert execute([*command, "--dead-letters"]) == 0
    lines = capsys.readouterr().out.splitlines()
    keys = {line.split("from ")[1].split(")")[0]: line.split()[1] for line in lines[:2]}
    assert sorted(keys) == ["/shops/1", "/shops/2"], lines
    assert execute([*command, "--discard", "order-7"]) == 2
    assert keys["/shops/2"] in "".join(capsys.readouterr().err.split("\n"))
    assert execute([*command, "--discard", keys["/shops/1"]]) == 0
    assert execute([*command, "--discard", "order-7"]) == 0  # only one is left
    assert capsys.readouterr().out.count("discarded 1 dead letter") == 2


async def _publish(store: str, *, sources: tuple[str, ...]) -> None:
    publisher = make_publisher(store)
    try:
        for source in sources:
            data = {"event_type": "order.created", "payload": {"order": "bad"}}
            event = CloudEvent(id="order-7", source=source, type="order.created", data=data)
            await publisher.publish(event)
    finally:
        await publisher.aclose()
