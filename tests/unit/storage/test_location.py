from pathlib import Path
from typing import Any

import pytest

from acc import Agent, InvalidInput, Runner
from acc.adapters.storage.location import PostgresLocation, describe_location, parse_location


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
        "mysql://user:pass-word@host/db",
        Path("mysql://user:pass-word@host/db"),
        "sqlite:mysql://user:pass-word@host/db",
        " mysql://user:pass-word@host/db",
        "mysql:user:pass-word@host",
        "mysql+driver://user:pass-word@host",
    ],
)
def test_unknown_scheme_is_rejected_without_the_password(store: str | Path) -> None:
    with pytest.raises(InvalidInput, match="scheme 'mysql.*postgresql://") as caught:
        Runner(Agent(name="a"), store=store)
    assert "pass-word" not in str(caught.value)
    assert "host" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("postgresql://ann:pass-word@db:5433/acc", "postgresql://ann@db:5433/acc"),
        ("postgres://ann:pass-word@a,b/acc?password=pass-word", "postgres://ann@a,b/acc"),
        ("postgresql://ann:p@ss-word@db/acc", "postgresql://ann@db/acc"),
        ("postgresql:///acc?host=/run", "postgresql:///acc"),
    ],
)
def test_postgres_url_is_shown_without_password(url: str, text: str) -> None:
    location = parse_location(url)
    assert isinstance(location, PostgresLocation)
    assert location.url == url
    assert str(location) == describe_location(url) == text
    assert "ss-word" not in repr(location)


@pytest.mark.parametrize(
    "store", ["postgresql:ann:pass-word@db", Path("postgresql://a:pass-word@d")]
)
def test_postgres_url_in_another_form_is_rejected(store: str | Path) -> None:
    with pytest.raises(InvalidInput, match="postgresql") as caught:
        parse_location(store)
    assert "pass-word" not in str(caught.value)


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
