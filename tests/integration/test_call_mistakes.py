"""`acc call`, `acc card` and `acc eval` where something is wrong: with a word, and no traceback."""

import pytest

from acc.cli import run as acc


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")


@pytest.mark.parametrize(
    "url",
    ["http://[::1", "http://[zz]/", "http://127.0.0.1:notaport", "http://127.0.0.1:99999", "[::1"],
)
@pytest.mark.parametrize("command", ["call", "card", "eval"])
def test_what_is_no_url_is_refused(
    command: str, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    further = {"call": [url, "hi"], "card": [url], "eval": ["--agents", f"theirs=a2a:{url}"]}
    assert acc([command, *further[command]]) == 2
    said = capsys.readouterr().err
    assert "Traceback" not in said
    assert "URL" in said


@pytest.mark.parametrize("value", ["s3cret\nb", "s3cret-あ"])
def test_what_can_be_no_token_is_refused_and_not_shown(
    value: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BROKEN", value)
    for command in (["call", "http://127.0.0.1:9", "hi"], ["card", "http://127.0.0.1:9"]):
        assert acc([*command, "--token-env", "BROKEN"]) == 2
        said = capsys.readouterr().err
        assert "the environment variable BROKEN holds is no token: it has" in said
        assert "s3cret" not in said
