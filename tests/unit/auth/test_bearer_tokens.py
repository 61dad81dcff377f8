from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acc.adapters.auth.bearer_tokens import PREFIX, StaticTokens, TokenEntry, new_token, token_hash
from acc.domain.errors import InvalidInput
from acc.domain.value_objects.principal import Principal

HASH = token_hash("acc_one")


def test_new_token_is_unique_and_has_prefix() -> None:
    tokens = {new_token() for _ in range(100)}
    assert len(tokens) == 100
    assert all(token.startswith(PREFIX) and len(token) == 47 for token in tokens)


def test_token_hash_is_sha256() -> None:
    assert token_hash("test") == "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"


async def test_known_token_returns_principal_and_unknown_none() -> None:
    tokens = StaticTokens(
        [TokenEntry(sha256=HASH, caller="請求", tenant="acme", permissions=frozenset({"a"}))]
    )
    assert await tokens.verify("acc_one") == Principal(
        caller="請求", tenant="acme", permissions=frozenset({"a"})
    )
    for wrong in ("", "acc_two", "ACC_ONE", HASH, "acc_one ", "\ud800", "x" * 100_000):
        assert await tokens.verify(wrong) is None
    assert len(tokens) == 1


async def test_token_without_permissions_has_all() -> None:
    principal = await StaticTokens([TokenEntry(sha256=HASH, caller="a")]).verify("acc_one")
    assert principal is not None
    assert principal.permissions is None
    assert not principal.is_anonymous


async def test_token_expires() -> None:
    entry = TokenEntry(sha256=HASH, caller="a", expires=100.0)
    assert await StaticTokens([entry], now=lambda: 99.9).verify("acc_one") is not None
    assert await StaticTokens([entry], now=lambda: 100.0).verify("acc_one") is None


@given(st.text())
async def test_empty_list_accepts_no_token(text: str) -> None:
    assert await StaticTokens([]).verify(text) is None


def test_duplicate_hash_is_rejected() -> None:
    entry = TokenEntry(sha256=HASH, caller="a")
    with pytest.raises(InvalidInput, match="token 2: sha256"):
        StaticTokens([entry, entry])


def write(folder: Path, text: str) -> Path:
    path = folder / "トークン.toml"
    path.write_text(text, encoding="utf-8")
    return path


async def test_token_file_is_read(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        f"""
        [[token]]
        sha256 = "{HASH.upper()}"
        caller = "請求"
        tenant = "acme"
        permissions = ["tasks:send"]
        expires = 2027-01-01T09:00:00+09:00

        [[token]]
        sha256 = "{token_hash("acc_two")}"
        caller = "other"
        permissions = []
        """,
    )
    end = datetime(2027, 1, 1, tzinfo=UTC).timestamp()
    tokens = StaticTokens.from_file(path, now=lambda: end - 1)
    assert await tokens.verify("acc_one") == Principal(
        caller="請求", tenant="acme", permissions=frozenset({"tasks:send"})
    )
    assert await StaticTokens.from_file(path, now=lambda: end).verify("acc_one") is None
    other = await tokens.verify("acc_two")
    assert other is not None
    assert other.permissions == frozenset()


GOOD = f'[[token]]\nsha256 = "{HASH}"\ncaller = "a"\n'


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "contains no"),
        ("token = []", "contains no"),
        ("token = 1", "contains no"),
        ("token = [1]", "token 1: is not a"),
        ("= 1", "is not TOML"),
        (GOOD + "[server]\n", "server: unknown"),
        (GOOD + 'secret = "x"\n', "token 1: secret: unknown"),
        (GOOD + GOOD, "token 2: sha256: duplicates"),
        (GOOD + '[[token]]\ncaller = "a"\n', "token 2: sha256: missing"),
        (f'[[token]]\nsha256 = "{HASH}"\n', "token 1: caller: missing"),
        (GOOD.replace('"a"', '" "'), "token 1: caller: must not be empty"),
        (GOOD.replace('"a"', "1"), "token 1: caller: must be a string"),
        (GOOD.replace(HASH, "acc_one"), "token 1: sha256: must be 64"),
        (GOOD + "tenant = 1\n", "token 1: tenant: must be a string"),
        (GOOD + 'permissions = "all"\n', "token 1: permissions: must be a list"),
        (GOOD + 'permissions = ["a", ""]\n', "token 1: permissions: must be a list"),
        (GOOD + "permissions = [1]\n", "token 1: permissions: must be a list"),
        (GOOD + "expires = 2027-01-01\n", "token 1: expires: must be a date-time"),
        (GOOD + "expires = 2027-01-01T00:00:00\n", "token 1: expires: must be a date-time"),
        (GOOD + 'expires = "2027"\n', "token 1: expires: must be a date-time"),
    ],
)
def test_invalid_token_file_is_rejected(tmp_path: Path, text: str, problem: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(InvalidInput) as caught:
        StaticTokens.from_file(path)
    assert str(caught.value).startswith(f"{path}: {problem}")


def test_error_does_not_contain_token(tmp_path: Path) -> None:
    token = new_token()
    with pytest.raises(InvalidInput) as caught:
        StaticTokens.from_file(write(tmp_path, GOOD.replace(HASH, token)))
    assert token not in str(caught.value)


def test_unreadable_token_file_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="cannot be read"):
        StaticTokens.from_file(tmp_path / "none.toml")
    with pytest.raises(InvalidInput, match="cannot be read"):
        StaticTokens.from_file(tmp_path)
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidInput, match="is not TOML"):
        StaticTokens.from_file(binary)
