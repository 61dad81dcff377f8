"""Checking an agent's card: what is wrong with it, and what would be right."""

import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec

from acc.adapters.a2a.wire.card_codec import PROTOCOL_V03, card_content, merged_card, read_card
from acc.domain.errors import RemoteFailed
from acc.domain.value_objects.agent_card import HTTP_JSON, JSONRPC, AgentCard
from acc.domain.value_objects.base import replace

_BINDINGS = (JSONRPC, HTTP_JSON, "GRPC")
_MEDIA_TYPE = re.compile(r"[\w.+*-]+/[\w.+*-]+(?:\s*;.*)?")
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_MOST = 200


class Weight(StrEnum):
    """How much a finding weighs."""

    FAULT = "fault"
    WARNING = "warning"


class CardFinding(NamedTuple):
    """Something about a card that should be otherwise."""

    weight: Weight
    field: str
    text: str
    fix: str


def check_card(body: bytes) -> list[CardFinding]:
    """Return what is wrong with a card as it was sent; faults keep clients from using it."""
    try:
        document = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return [_fault("", "is not JSON in UTF-8", "serve one JSON object")]
    if not isinstance(document, Mapping):
        return [_fault("", "is no JSON object", "serve one JSON object")]
    found = [*_checks(document)]
    if not any(finding.weight is Weight.FAULT for finding in found):
        try:
            read_card(body)
        except RemoteFailed as error:
            said = str(error).rpartition(": ")
            found.append(_fault(said[0].rpartition(": ")[2], said[2], "write it as the field asks"))
    return found[:_MOST]


def _fault(field: str, text: str, fix: str) -> CardFinding:
    return CardFinding(Weight.FAULT, field, text, fix)


def _warning(field: str, text: str, fix: str) -> CardFinding:
    return CardFinding(Weight.WARNING, field, text, fix)


def _checks(card: Mapping[str, Any]) -> Iterator[CardFinding]:
    for name in ("name", "description", "version"):
        yield from _text(card, name, "")
    yield from _interfaces(card)
    if not isinstance(card.get("capabilities"), Mapping):
        yield _fault("capabilities", "is missing", 'add "capabilities": {"streaming": …}')
    for name in ("defaultInputModes", "defaultOutputModes"):
        yield from _modes(card.get(name), name, needed=True)
    yield from _skills(card.get("skills"))
    yield from _security(card)
    yield from _signatures(card.get("signatures"))


def _text(held: Mapping[str, Any], name: str, place: str) -> Iterator[CardFinding]:
    value = held.get(name)
    field = f"{place}{name}"
    if value is None or value == "":
        yield _fault(field, "is missing", f'add "{name}", a text')
    elif not isinstance(value, str):
        yield _fault(field, "is no text", "write it as a text")


def _interfaces(card: Mapping[str, Any]) -> Iterator[CardFinding]:
    listed = card.get("supportedInterfaces")
    is_old = "url" in card
    if listed is None and not is_old:
        yield _fault(
            "supportedInterfaces",
            "is missing",
            "list at least one interface with url, protocolBinding and protocolVersion",
        )
        return
    if listed is None:
        yield _warning(
            "supportedInterfaces",
            "is missing, so only clients of 0.3 can call",
            "list the interfaces of 1.0 there if they are spoken",
        )
    elif not isinstance(listed, list) or not listed:
        yield _fault("supportedInterfaces", "is no list with an interface", "list at least one")
    else:
        for place, interface in enumerate(listed):
            yield from _interface(interface, f"supportedInterfaces[{place}]")
    if is_old:
        yield from _old_interfaces(card)


def _interface(held: Any, place: str) -> Iterator[CardFinding]:
    if not isinstance(held, Mapping):
        yield _fault(place, "is no object", "write url, protocolBinding and protocolVersion")
        return
    yield from _url(held.get("url"), f"{place}.url")
    yield from _binding(held.get("protocolBinding"), f"{place}.protocolBinding")
    version = held.get("protocolVersion")
    if not isinstance(version, str) or not re.fullmatch(r"\d+\.\d+(?:\.\d+)?", version):
        yield _fault(f"{place}.protocolVersion", "is no version", 'write "1.0" or "0.3"')


def _old_interfaces(card: Mapping[str, Any]) -> Iterator[CardFinding]:
    yield from _url(card.get("url"), "url")
    if "protocolVersion" not in card:
        yield _warning("protocolVersion", "is missing", 'add "protocolVersion": "0.3.0"')
    if "preferredTransport" in card:
        yield from _binding(card["preferredTransport"], "preferredTransport")
    further = card.get("additionalInterfaces", [])
    if not isinstance(further, list):
        yield _fault("additionalInterfaces", "is no list", "list url and transport of each")
        return
    for place, interface in enumerate(further):
        field = f"additionalInterfaces[{place}]"
        if not isinstance(interface, Mapping):
            yield _fault(field, "is no object", "write url and transport")
            continue
        yield from _url(interface.get("url"), f"{field}.url")
        yield from _binding(interface.get("transport"), f"{field}.transport")


def _url(value: Any, field: str) -> Iterator[CardFinding]:
    try:
        parts = urlsplit(value if isinstance(value, str) else "")
        host, scheme = parts.hostname, parts.scheme
    except ValueError:
        host, scheme = None, ""
    if scheme not in ("http", "https") or not host:
        yield _fault(field, "is no absolute URL", "write it like https://agents.example.com/a2a")
    elif scheme == "http" and host not in _LOOPBACK:
        yield _warning(field, "is not encrypted", "serve it over https")


def _binding(value: Any, field: str) -> Iterator[CardFinding]:
    if not isinstance(value, str) or not value:
        yield _fault(field, "is missing", f"write one of {', '.join(_BINDINGS)}")
    elif value not in _BINDINGS:
        yield _warning(
            field, f"{value!r} is none of the protocol's own", f"use {', '.join(_BINDINGS)}"
        )


def _modes(value: Any, field: str, *, needed: bool) -> Iterator[CardFinding]:
    if value is None and not needed:
        return
    if not isinstance(value, list) or (needed and not value):
        yield _fault(field, "is no list of media types", 'write for instance ["text/plain"]')
        return
    for place, mode in enumerate(value):
        if not isinstance(mode, str) or not _MEDIA_TYPE.fullmatch(mode):
            yield _fault(f"{field}[{place}]", "is no media type", 'write one like "text/plain"')


def _skills(skills: Any) -> Iterator[CardFinding]:
    if not isinstance(skills, list):
        yield _fault("skills", "is no list", "list what the agent can do")
        return
    if not skills:
        yield _warning("skills", "is empty", "say what the agent can do, so that it is chosen")
    seen: set[str] = set()
    for place, skill in enumerate(skills):
        field = f"skills[{place}]"
        if not isinstance(skill, Mapping):
            yield _fault(field, "is no object", "write id, name, description and tags")
            continue
        for name in ("id", "name", "description"):
            yield from _text(skill, name, f"{field}.")
        if not isinstance(skill.get("tags"), list):
            yield _fault(f"{field}.tags", "is no list", "add a list of words")
        if skill.get("id") in seen:
            yield _fault(f"{field}.id", "is that of another skill", "give each its own")
        seen.add(str(skill.get("id")))
        for name in ("inputModes", "outputModes"):
            yield from _modes(skill.get(name), f"{field}.{name}", needed=False)


def _security(card: Mapping[str, Any]) -> Iterator[CardFinding]:
    schemes = card.get("securitySchemes", {})
    if not isinstance(schemes, Mapping):
        yield _fault("securitySchemes", "is no object", "name each scheme")
        return
    for name in ("securityRequirements", "security"):
        needs = card.get(name, [])
        if not isinstance(needs, list):
            yield _fault(name, "is no list", "list the schemes of which one is needed")
            continue
        for place, needed in enumerate(needs):
            field = f"{name}[{place}]"
            if not isinstance(needed, Mapping):
                yield _fault(field, "is no object", "write scheme and scopes")
                continue
            inner = needed.get("schemes", needed)
            for scheme in inner if isinstance(inner, Mapping) else ():
                if scheme not in schemes:
                    fix = "describe it in securitySchemes"
                    yield _fault(field, f"{scheme!r} is no scheme of the card", fix)


def _signatures(signatures: Any) -> Iterator[CardFinding]:
    if signatures is None:
        return
    if not isinstance(signatures, list):
        yield _fault("signatures", "is no list", "list protected and signature of each")
        return
    for place, held in enumerate(signatures):
        is_whole = isinstance(held, Mapping) and all(
            isinstance(held.get(name), str) for name in ("protected", "signature")
        )
        if not is_whole:
            field = f"signatures[{place}]"
            yield _fault(field, "lacks protected or signature", "sign the card anew")


def unsigned_fields(document: Mapping[str, Any], card: AgentCard) -> list[str]:
    """Return the fields of a card as it was sent that do not follow from the content of 1.0.

    Official servers sign that content alone, and then add what clients of 0.3 read. Where this
    repeats what was signed it does no harm; anything else could have been put in by anyone.
    """
    follows = merged_card(replace(card, signatures=()))
    pairs = {(one.url, one.binding) for one in card.interfaces if one.version == PROTOCOL_V03}
    return [
        name
        for name, value in document.items()
        if name != "signatures"
        and not _repeats_address(name, document, pairs)
        and not _is_within(value, follows.get(name))
    ]


def signed_part(document: Mapping[str, Any], card: AgentCard) -> dict[str, Any]:
    """Return a card without what is not signed of it."""
    content = card_content(card)
    unsigned = unsigned_fields(document, card)
    kept = {name: value for name, value in document.items() if name not in unsigned}
    return kept | {name: content[name] for name in unsigned if name in content}


def _repeats_address(name: str, document: Mapping[str, Any], pairs: set[tuple[str, str]]) -> bool:
    """Tell whether a field of 0.3 names no address but those of 0.3 that were signed."""
    if name in ("url", "preferredTransport"):
        return _is_pair(document.get("url"), document.get("preferredTransport"), pairs)
    if name == "additionalInterfaces":
        listed = document[name]
        return isinstance(listed, list) and all(
            isinstance(one, Mapping)
            and one.keys() <= {"url", "transport"}
            and _is_pair(one.get("url"), one.get("transport"), pairs)
            for one in listed
        )
    return name == "protocolVersion" and bool(pairs) and document[name] == PROTOCOL_V03


def _is_pair(url: Any, transport: Any, pairs: set[tuple[str, str]]) -> bool:
    return any(url == one[0] and (transport or JSONRPC) == one[1] for one in pairs)


def _is_within(given: Any, held: Any) -> bool:
    """Tell whether a value says nothing beyond another; what is empty says nothing at all."""
    if isinstance(given, Mapping) and isinstance(held, Mapping):
        return all(_is_within(value, held.get(name)) for name, value in given.items())
    if isinstance(given, list) and isinstance(held, list):
        is_same_length = len(given) == len(held)
        return is_same_length and all(map(_is_within, given, held))
    if held is None:
        return given is None or given is False or given in ("", [], {})
    return type(given) is type(held) and bool(given == held)
