"""Load labelled examples from TOML files."""

import tomllib
from collections.abc import Iterable
from difflib import get_close_matches
from importlib.resources import files
from pathlib import Path

import msgspec

from acc.adapters.system.decode_errors import field_error_of
from acc.domain.errors import InvalidInput
from acc.domain.value_objects.evaluation_run import (
    CLAIM_LABELS,
    RULE_LABELS,
    CalibrationCase,
    CalibrationItem,
    Label,
)


class _Item(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    kind: str
    verdict: str
    text: str
    evidence: str = ""
    answer: str = ""


#: Shipped sets: answers by several writers, and free prose that shares few words with its evidence.
SHIPPED_SETS = ("answers", "difficult")


class _Case(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    id: str
    context: tuple[str, ...]
    question: str
    claims: tuple[_Item, ...] = ()
    answers: tuple[_Item, ...] = ()
    language: str = ""
    domain: str = ""
    writer: str = ""


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    case: tuple[_Case, ...]
    language: str = ""
    domain: str = ""
    writer: str = ""


def load_cases(path: Path | None = None) -> tuple[CalibrationCase, ...]:
    """Return the cases of a file, a folder or a shipped set; without a path, of `answers`."""
    name = SHIPPED_SETS[0] if path is None else str(path)
    if path is None or (name in SHIPPED_SETS and not path.exists()):
        shipped = files("acc.calibration").joinpath(name)
        texts = {
            entry.name: entry.read_text(encoding="utf-8")
            for entry in sorted(shipped.iterdir(), key=lambda entry: entry.name)
            if entry.name.endswith(".toml")
        }
    else:
        texts = {str(file): _text(file) for file in _files(path)}
    cases = [case for name, text in texts.items() for case in _cases(name, text)]
    ids: set[str] = set()
    for case in cases:
        if case.id in ids:
            raise InvalidInput(f"case ids must be unique, got {case.id!r} twice")
        ids.add(case.id)
    return tuple(cases)


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        paths = sorted(path.glob("*.toml"))
        if not paths:
            raise InvalidInput(f"{path} contains no .toml file")
        return paths
    if not path.exists():
        similar = get_close_matches(str(path).lower(), SHIPPED_SETS, 1)
        meant = f"Did you mean {similar[0]!r}? " if similar else ""
        raise InvalidInput(
            f"cannot read {path}: it does not exist. {meant}Name a .toml file, a folder, or a "
            f"shipped set: {' or '.join(SHIPPED_SETS)}"
        )
    return [path]


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InvalidInput(f"cannot read {file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{file} is not UTF-8: {error}") from error


def _cases(name: str, text: str) -> Iterable[CalibrationCase]:
    try:
        file = msgspec.convert(tomllib.loads(text), _File)
        return [_case(file, case) for case in file.case]
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput(
            f"{name} is not valid TOML: {error}; docs/calibration.md describes the format"
        ) from error
    except msgspec.ValidationError as error:
        field, text = field_error_of(error, _File)
        raise InvalidInput(f"{name}: {field}: {text}" if field else f"{name}: {text}") from error
    except ValueError as error:
        raise InvalidInput(f"{name}: {error}") from error


def _case(file: _File, case: _Case) -> CalibrationCase:
    items = [_item(f"{case.id}.{n}", item, True) for n, item in enumerate(case.claims, start=1)]
    items += [_item(f"{case.id}.r{n}", item, False) for n, item in enumerate(case.answers, start=1)]
    return CalibrationCase(
        id=case.id,
        language=case.language or file.language or "en",
        domain=case.domain or file.domain or "none",
        writer=case.writer or file.writer or "none",
        context=case.context,
        question=case.question,
        items=tuple(items),
    )


def _item(name: str, item: _Item, is_claim: bool) -> CalibrationItem:
    allowed = CLAIM_LABELS if is_claim else RULE_LABELS
    if item.verdict not in allowed:
        raise ValueError(
            f"{name}: verdict must be one of {', '.join(allowed)}, got {item.verdict!r}"
        )
    return CalibrationItem(
        id=name,
        kind=item.kind,
        label=Label(item.verdict),
        text=item.text,
        answer=item.answer or item.text,
        evidence=item.evidence,
    )
