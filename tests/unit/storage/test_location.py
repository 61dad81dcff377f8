from pathlib import Path
from typing import Any

import pytest

from acc import Agent, InvalidInput, Runner
from acc.adapters.storage.location import parse_location


@pytest.mark.parametrize("store", ["memory", ":memory:", "sqlite:///:memory:", "sqlite::memory:"])
def test_memory_has_no_path(store: str) -> None:
    assert parse_location(store) is None


@pytest.mark.parametrize(
    ("store", "path"),
    [
        ("shop.db", "shop.db"),
        ("sqlite:///shop.db", "shop.db"),
        ("sqlite:shop.db", "shop.db"),
        ("sqlite:////var/shop.db", "/var/shop.db"),
        (Path("/var/shop.db"), "/var/shop.db"),
        (Path("memory"), "memory"),
        ("C:/shop.db", "C:/shop.db"),
        ("a:b.db", "a:b.db"),
    ],
)
def test_path_of_a_file(store: str | Path, path: str) -> None:
    assert parse_location(store) == Path(path)


@pytest.mark.parametrize(
    "store",
    [
        "postgresql://user:pass-word@host/db",
        Path("postgresql://user:pass-word@host/db"),
        "sqlite:postgresql://user:pass-word@host/db",
        " postgresql://user:pass-word@host/db",
        "postgresql:user:pass-word@host",
    ],
)
def test_unknown_scheme_is_rejected_without_the_password(store: str | Path) -> None:
    with pytest.raises(InvalidInput, match="scheme 'postgresql'") as caught:
        Runner(Agent(name="a"), store=store)
    assert "pass-word" not in str(caught.value)
    assert "host" not in str(caught.value)


@pytest.mark.parametrize("store", ["sqlite://u:pass-word@h/db", "sqlite:///a.db?key=pass-word"])
def test_sqlite_url_with_host_or_parameters_is_rejected(store: str) -> None:
    with pytest.raises(InvalidInput, match="sqlite:///PATH") as caught:
        parse_location(store)
    assert "pass-word" not in str(caught.value)


@pytest.mark.parametrize("store", ["", "sqlite:", "sqlite:///", "/"])
def test_empty_path_is_rejected(store: str) -> None:
    with pytest.raises(InvalidInput, match="no path"):
        parse_location(store)


def test_other_types_are_rejected() -> None:
    store: Any = 3
    with pytest.raises(InvalidInput, match="got int"):
        parse_location(store)
