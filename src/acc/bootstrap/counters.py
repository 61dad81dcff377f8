"""Construct counters of callers: in memory, in a store, or in a Valkey or Redis server."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from limits.aio.storage import MemoryStorage, RedisStorage
from limits.aio.storage.base import Storage
from limits.errors import ConfigurationError

from acc.adapters.storage.counters import BoundedUsedIds, CounterTable, StoreCounters, StoredIds
from acc.adapters.storage.location import PostgresLocation, describe_location, parse_location
from acc.adapters.storage.rate_limits import StorageRateLimiter, check_storage, close_storage
from acc.application.a2a.replay_protection import InMemoryUsedIds
from acc.bootstrap.storage import require_postgres
from acc.domain.errors import InvalidInput, StorageFailed
from acc.ports.outbound.auth_ports import UsedIdsPort

log = logging.getLogger("acc.limits")
_VALKEY_PORT = 6379
_VALKEY_SCHEMES = frozenset({"valkey", "valkeys", "redis", "rediss"})
#: Requests do not wait longer for a Valkey server, or for a file that is locked.
_TIMEOUT_SECONDS = 1.0
#: A store may have to be opened first.
_STORE_TIMEOUT_SECONDS = 5.0


class RateLimiter(StorageRateLimiter):
    """Counts requests per caller and intent; implements RateLimiterPort.

    A rate is written like "100/minute" or "10 per 5 seconds". A shorter window beside a longer one
    limits bursts: `("1000/hour", "20/second")`. `per_intent` and `per_tool` have rates of single
    intents and tools, and `bytes_per_caller` rates of bytes in request bodies. `tokens_per_day` and
    `cost_per_day`, in US dollars, are quotas of a caller for the models: the call that exceeds one
    is completed, and later requests are rejected until the next day in UTC. `store` is "memory", or
    what several servers share: the path of a SQLite file, postgresql://USER@HOST/DATABASE, or the
    URL of a Valkey or Redis server such as valkey://HOST:6379. If the store does not respond,
    requests are accepted ("allow") or answered with 503 ("deny"); both are logged.
    """

    def __init__(
        self,
        per_caller: Sequence[str] = (),
        *,
        per_intent: Mapping[str, Sequence[str]] | None = None,
        per_tool: Mapping[str, Sequence[str]] | None = None,
        bytes_per_caller: Sequence[str] = (),
        tokens_per_day: int | None = None,
        cost_per_day: float | None = None,
        store: str | Path = "memory",
        on_failure: Literal["allow", "deny"] = "allow",
    ) -> None:
        self.store = store
        self.accepts_on_failure = on_failure == "allow"
        super().__init__(
            per_caller,
            per_intent=per_intent,
            per_tool=per_tool,
            bytes_per_caller=bytes_per_caller,
            tokens_per_day=tokens_per_day,
            cost_per_day=cost_per_day,
            storage=_open_storage(store),
            place=_describe(store),
            timeout=_timeout(store),
            on_failure=on_failure,
        )


class UsedIds(BoundedUsedIds):
    """Ids that may be used once, such as nonces and the `jti` of tokens; implements UsedIdsPort.

    `store` is "memory", or what several servers share, as for `RateLimiter`. If it does not
    respond, requests are answered with 503, which is logged: accepting them would permit a replay.
    Only digests of the ids are stored.
    """

    accepts_on_failure = False

    def __init__(self, store: str | Path = "memory") -> None:
        self.store = store
        super().__init__(_open_ids(store), place=_describe(store), timeout=_timeout(store))


async def check_counters(counters: object) -> None:
    """Raise StorageFailed if counters can never be used; warn if they do not respond now."""
    if not isinstance(counters, RateLimiter | UsedIds) or counters.store == "memory":
        return
    store = counters.store
    storage = _open_storage(store)
    try:
        await check_storage(storage, timeout=_timeout(store))
    except StorageFailed as error:
        place = "" if _describe(store) in str(error) else f"{_describe(store)}: "
        what = "the used ids" if isinstance(counters, UsedIds) else "the counters of rate limits"
        if not error.is_temporary:
            raise StorageFailed(
                f"{what} cannot be stored: {place}{error}. Correct the option "
                f"{'--replay-store' if isinstance(counters, UsedIds) else '--rate-limit-store'}"
            ) from None
        log.warning(
            "%s do not respond at present: %s%s; requests are %s until they do",
            what,
            place,
            error,
            "accepted" if counters.accepts_on_failure else "rejected with 503",
        )
    finally:
        await close_storage(storage)


def _open_storage(store: str | Path) -> Storage:
    if store == "memory":
        return MemoryStorage()
    if not _is_valkey(store):
        return StoreCounters(_open_table(store))
    url = _valkey_url(store)
    try:
        return RedisStorage(
            url,
            implementation="valkey",
            key_prefix="acc",
            socket_timeout=_TIMEOUT_SECONDS,
            socket_connect_timeout=_TIMEOUT_SECONDS,
        )
    except ConfigurationError:
        raise _missing_valkey("shared rate limits") from None


def _open_ids(store: str | Path) -> UsedIdsPort:
    if store == "memory":
        return InMemoryUsedIds()
    if not _is_valkey(store):
        return StoredIds(_open_table(store))
    try:
        from acc.adapters.storage.valkey_ids import ValkeyIds
    except ModuleNotFoundError:
        raise _missing_valkey("shared ids") from None
    return ValkeyIds(_valkey_url(store))


def _open_table(store: str | Path) -> CounterTable:
    """Return the counters of a store, which is opened on first use."""
    try:
        location = parse_location(store)
    except InvalidInput as error:
        raise InvalidInput(
            f"counters: {error}; or the URL of a Valkey or Redis server, such as valkey://HOST:6379"
        ) from None
    if location is None:
        raise InvalidInput('write "memory" for counters of this process')
    if isinstance(location, PostgresLocation):
        require_postgres()
        from acc.adapters.storage.postgres_counters import PostgresCounters

        return PostgresCounters(location)
    from acc.adapters.storage.sqlite import SqliteDatabase
    from acc.adapters.storage.sqlite_counters import SqliteCounters

    return SqliteCounters(SqliteDatabase(location, busy_timeout=_TIMEOUT_SECONDS))


def _is_valkey(store: str | Path) -> bool:
    return isinstance(store, str) and urlsplit(store).scheme in _VALKEY_SCHEMES


def _valkey_url(store: str | Path) -> str:
    """Return the URL of a Valkey server with a port, or raise InvalidInput."""
    url = urlsplit(str(store))
    try:
        port = url.port
    except ValueError as error:
        raise InvalidInput(f"counters: {error}; write the URL like valkey://HOST:6379") from None
    if not url.hostname:
        raise InvalidInput("counters: the URL has no host; write it like valkey://HOST:6379")
    return str(store) if port else url._replace(netloc=f"{url.netloc}:{_VALKEY_PORT}").geturl()


def _describe(store: str | Path) -> str:
    """Return where counters are, as it may be logged."""
    if _is_valkey(store):
        return urlsplit(str(store)).hostname or "localhost"
    return describe_location(store)


def _timeout(store: str | Path) -> float:
    return _TIMEOUT_SECONDS if _is_valkey(store) else _STORE_TIMEOUT_SECONDS


def _missing_valkey(feature: str) -> InvalidInput:
    return InvalidInput(f"{feature} require the package valkey; install acc-agents[valkey]")
