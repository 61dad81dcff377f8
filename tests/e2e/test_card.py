"""`acc card`: printing, validation and signatures of agent cards."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from socket import socket
from urllib.request import urlopen

from command import acc

from acc.adapters.a2a.wire.card_codec import card_content, read_card
from acc.adapters.auth.card_signatures import canonical_json, sign_card
from acc.adapters.auth.keys import generate_key


@contextmanager
def serve_files(folder: Path) -> Iterator[str]:
    """Serve the files of a folder."""
    with socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1"]
    process = subprocess.Popen(  # noqa: S603 - our own interpreter
        command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=os.environ
    )
    try:
        for _ in range(100):
            try:
                urlopen(f"http://127.0.0.1:{port}/", timeout=1).close()
                break
            except OSError:
                time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def test_card_is_printed_and_valid(everything: str) -> None:
    done = acc("card", everything)
    assert done.returncode == 0, done.stderr
    for line in (
        "Executes the command in a message.",
        "HTTP+JSON 0.3",
        "anyone",
        "the card is valid",
    ):
        assert line in done.stdout
    data = json.loads(acc("card", everything, "--json").stdout)
    assert (data["valid"], data["findings"], data["card"]["name"]) == (
        True,
        [],
        "everything",
    )


def test_invalid_card_is_reported_with_fixes(tmp_path: Path) -> None:
    (tmp_path / "card.json").write_text('{"name": "x", "url": "desk"}', encoding="utf-8")
    with serve_files(tmp_path) as url:
        done = acc("card", f"{url}/card.json")
        missing = acc("card", url)
    assert done.returncode == 1
    assert "url is not an absolute URL; use a URL such as https://" in done.stdout
    assert "errors" in done.stdout
    assert missing.returncode == 1
    assert "has no agent card at" in missing.stderr


def test_card_signature_is_verified_with_a_key(everything: str, tmp_path: Path) -> None:
    card = json.loads(acc("card", everything, "--json").stdout)["card"]
    key, other = generate_key(kid="ours"), generate_key(kid="theirs")
    for name, jwk in (("ours.json", key), ("theirs.json", other)):
        (tmp_path / name).write_bytes(canonical_json(dict(jwk.as_dict(private=False))))
    card["signatures"] = [sign_card(card, key)]
    (tmp_path / "card.json").write_text(json.dumps(card), encoding="utf-8")
    with serve_files(tmp_path) as url:
        good = acc("card", f"{url}/card.json", "--key", tmp_path / "ours.json")
        bad = acc("card", f"{url}/card.json", "--key", tmp_path / "theirs.json")
        unchecked = acc("card", f"{url}/card.json")
    assert good.returncode == 0, good.stdout
    assert "signed by key ours" in good.stdout
    assert bad.returncode == 1
    assert "the card has no valid signature" in bad.stdout
    assert "pass --key FILE" in unchecked.stdout
    unsigned = acc("card", everything, "--key", tmp_path / "ours.json")
    assert unsigned.returncode == 1
    assert "the card is not signed" in unsigned.stdout


def test_card_fields_outside_the_signature_are_reported_and_omitted(
    everything: str, tmp_path: Path
) -> None:
    card = json.loads(acc("card", everything, "--json").stdout)["card"]
    key = generate_key(kid="ours")
    (tmp_path / "ours.json").write_bytes(canonical_json(dict(key.as_dict(private=False))))
    content = card_content(read_card(json.dumps(card).encode()))
    card["signatures"] = [sign_card(card, key), sign_card(content, key)]
    changes: dict[str, dict[str, object]] = {
        "unchanged": {},
        "moved": {"url": "https://evil.example/"},
        "extended": {"added": "anything"},
    }
    for name, change in changes.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(card | change), encoding="utf-8")
    with serve_files(tmp_path) as url:
        results = {
            name: acc("card", f"{url}/{name}.json", "--key", tmp_path / "ours.json", "--json")
            for name in changes
        }
        text_result = acc("card", f"{url}/moved.json", "--key", tmp_path / "ours.json")
    assert [results[name].returncode for name in changes] == [0, 1, 1]
    assert json.loads(results["unchanged"].stdout)["signed_by"] == "ours"
    moved = json.loads(results["moved"].stdout)
    assert (moved["valid"], moved["signed_by"]) == (False, None)
    assert [finding["field"] for finding in moved["findings"]] == ["url"]
    assert "evil" not in results["moved"].stdout
    assert "anything" not in results["extended"].stdout
    assert "url is not covered by the signature of key ours" in text_result.stdout
    assert "signed by key" not in text_result.stdout
