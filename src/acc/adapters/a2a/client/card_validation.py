"""Validation of agent cards: invalid fields, and what a signature covers."""

import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec

from acc.adapters.a2a.wire.card_codec import PROTOCOL_V03, card_content, merged_card, read_card
from acc.domain.errors import RemoteFailed, Unauthenticated
from acc.domain.value_objects.agent_card import (
    GRPC,
    HTTP_JSON,
    JSONRPC,
    AgentCard,
    CardFinding,
    CardReport,
    CardSeverity,
    card_error,
    card_warning,
)
from acc.domain.value_objects.base import replace
from acc.domain.value_objects.endpoint import to_grpc_url
from acc.ports.outbound.auth_ports import CardVerifierPort

_BINDINGS = (JSONRPC, HTTP_JSON, GRPC)
_MEDIA_TYPE = re.compile(r"[\w.+*-]+/[\w.+*-]+(?:\s*;.*)?")
_VERSION = re.compile(r"\d+\.\d+(?:\.\d+)?")
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_MAX_FINDINGS = 200


def inspect_card(url: str, body: bytes, *, verifier: CardVerifierPort | None = None) -> CardReport:
    """Validate a card as it was sent, and its signature if there is a `verifier`."""
    findings = validate_card(body)
    signed_by: str | None = None
    if verifier is not None:
        try:
            signed_by, body, unsigned = _signed_content(body, verifier)
        except Unauthenticated as error:
            fix = "get the card, or the key, from the operator of the agent"
            findings.append(card_error("signatures", str(error), fix))
        else:
            findings.extend(
                card_error(
                    field,
                    f"is not covered by the signature of key {signed_by}, so it can be modified",
                    "do not use it; the operator of the agent should sign the card as it is sent",
                )
                for field in unsigned
            )
            signed_by = None if unsigned else signed_by
    return CardReport(
        url=url, body=body, findings=tuple(findings), card=_read_or_none(body), signed_by=signed_by
    )


def validate_card(body: bytes) -> list[CardFinding]:
    """Return the problems of a card as it was sent."""
    try:
        document = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return [card_error("", "is not JSON in UTF-8", "serve one JSON object")]
    if not isinstance(document, Mapping):
        return [card_error("", "is not a JSON object", "serve one JSON object")]
    findings = [*_validate(document)]
    if not any(finding.severity is CardSeverity.ERROR for finding in findings):
        try:
            read_card(body)
        except RemoteFailed as error:
            before, _, problem = str(error).rpartition(": ")
            field = before.rpartition(": ")[2]
            findings.append(card_error(field, problem, "correct the value of the field"))
    return findings[:_MAX_FINDINGS]


def unsigned_fields(document: Mapping[str, Any], card: AgentCard) -> list[str]:
    """Return the fields of a sent card that do not follow from its 1.0 content.

    Official servers sign the 1.0 content only, and then add the fields that 0.3 clients read. A
    field that repeats signed content is harmless; anyone could have added anything else.
    """
    expected = merged_card(replace(card, signatures=()))
    pairs = {(one.url, one.binding) for one in card.interfaces if one.version == PROTOCOL_V03}
    return [
        name
        for name, value in document.items()
        if name != "signatures"
        and not _repeats_interface(name, document, pairs)
        and not _is_contained(value, expected.get(name))
    ]


def _signed_content(body: bytes, verifier: CardVerifierPort) -> tuple[str, bytes, list[str]]:
    """Return the kid, the signed content, and the fields that are not signed.

    A signature covers the card as it was sent, or its 1.0 content only.
    """
    try:
        document = msgspec.json.decode(body, type=dict[str, Any])
        listed = document.get("signatures") or ()
        signatures = [entry for entry in listed if isinstance(entry, Mapping)]
    except (msgspec.DecodeError, TypeError):
        raise Unauthenticated(
            "the card is invalid, so its signature cannot be verified; the operator of the agent "
            "must correct the card"
        ) from None
    try:
        return verifier.verify(document, signatures), body, []
    except Unauthenticated:
        card = _read_or_none(body)
        if card is None:
            raise
    content = card_content(card)
    kid = verifier.verify(content, signatures)
    unsigned = unsigned_fields(document, card)
    signed = {name: value for name, value in document.items() if name not in unsigned}
    signed |= {name: content[name] for name in unsigned if name in content}
    return kid, msgspec.json.encode(signed), unsigned


def _read_or_none(body: bytes) -> AgentCard | None:
    try:
        return read_card(body)
    except RemoteFailed:
        return None


def _validate(card: Mapping[str, Any]) -> Iterator[CardFinding]:
    for name in ("name", "description", "version"):
        yield from _text(card, name, "")
    yield from _interfaces(card)
    if not isinstance(card.get("capabilities"), Mapping):
        yield card_error("capabilities", "is missing", 'add "capabilities": {"streaming": …}')
    for name in ("defaultInputModes", "defaultOutputModes"):
        yield from _modes(card.get(name), name, is_required=True)
    yield from _skills(card.get("skills"))
    yield from _security(card)
    yield from _signatures(card.get("signatures"))


def _text(parent: Mapping[str, Any], name: str, prefix: str) -> Iterator[CardFinding]:
    value = parent.get(name)
    field = f"{prefix}{name}"
    if value is None or value == "":
        yield card_error(field, "is missing", f'add the string "{name}"')
    elif not isinstance(value, str):
        yield card_error(field, "is not a string", "use a string")


def _interfaces(card: Mapping[str, Any]) -> Iterator[CardFinding]:
    interfaces = card.get("supportedInterfaces")
    is_legacy = "url" in card
    if interfaces is None and not is_legacy:
        yield card_error(
            "supportedInterfaces",
            "is missing",
            "list at least one interface with url, protocolBinding and protocolVersion",
        )
        return
    if interfaces is None:
        yield card_warning(
            "supportedInterfaces",
            "is missing, so only 0.3 clients can call the agent",
            "list the interfaces of version 1.0 if they are supported",
        )
    elif not isinstance(interfaces, list) or not interfaces:
        yield card_error(
            "supportedInterfaces", "is not a list with an interface", "list at least one interface"
        )
    else:
        for index, interface in enumerate(interfaces):
            yield from _interface(interface, f"supportedInterfaces[{index}]")
    if is_legacy:
        yield from _legacy_interfaces(card)


def _interface(interface: Any, field: str) -> Iterator[CardFinding]:
    if not isinstance(interface, Mapping):
        yield card_error(field, "is not an object", "add url, protocolBinding and protocolVersion")
        return
    binding, url = interface.get("protocolBinding"), interface.get("url")
    if binding == GRPC and isinstance(url, str) and "://" not in url:
        yield from _grpc_target(url, f"{field}.url")
    else:
        yield from _url(url, f"{field}.url")
    yield from _binding(binding, f"{field}.protocolBinding")
    version = interface.get("protocolVersion")
    if not isinstance(version, str) or not _VERSION.fullmatch(version):
        yield card_error(f"{field}.protocolVersion", "is not a version", 'use "1.0" or "0.3"')


def _legacy_interfaces(card: Mapping[str, Any]) -> Iterator[CardFinding]:
    yield from _url(card.get("url"), "url")
    if "protocolVersion" not in card:
        yield card_warning("protocolVersion", "is missing", 'add "protocolVersion": "0.3.0"')
    if "preferredTransport" in card:
        yield from _binding(card["preferredTransport"], "preferredTransport")
    additional = card.get("additionalInterfaces", [])
    if not isinstance(additional, list):
        yield card_error("additionalInterfaces", "is not a list", "list url and transport of each")
        return
    for index, interface in enumerate(additional):
        field = f"additionalInterfaces[{index}]"
        if not isinstance(interface, Mapping):
            yield card_error(field, "is not an object", "add url and transport")
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
        yield card_error(
            field, "is not an absolute URL", "use a URL such as https://agents.example.com/a2a"
        )
    elif scheme == "http" and host not in _LOOPBACK:
        yield card_warning(field, "is not encrypted", "use https")


def _grpc_target(value: str, field: str) -> Iterator[CardFinding]:
    if not to_grpc_url(value, encrypted=True) or not value.rpartition(":")[2].isdecimal():
        yield card_error(
            field,
            "is not the address of a gRPC server",
            "use HOST:PORT, such as agents.example.com:443",
        )


def _binding(value: Any, field: str) -> Iterator[CardFinding]:
    names = ", ".join(_BINDINGS)
    if not isinstance(value, str) or not value:
        yield card_error(field, "is missing", f"use one of {names}")
    elif value not in _BINDINGS:
        yield card_warning(field, f"{value!r} is not a standard binding", f"use one of {names}")


def _modes(value: Any, field: str, *, is_required: bool) -> Iterator[CardFinding]:
    if value is None and not is_required:
        return
    if not isinstance(value, list) or (is_required and not value):
        yield card_error(field, "is not a list of media types", 'use a list such as ["text/plain"]')
        return
    for index, mode in enumerate(value):
        if not isinstance(mode, str) or not _MEDIA_TYPE.fullmatch(mode):
            yield card_error(
                f"{field}[{index}]", "is not a media type", 'use one such as "text/plain"'
            )


def _skills(skills: Any) -> Iterator[CardFinding]:
    if not isinstance(skills, list):
        yield card_error("skills", "is not a list", "list the skills of the agent")
        return
    if not skills:
        yield card_warning("skills", "is empty", "describe what the agent can do")
    ids: set[str] = set()
    for index, skill in enumerate(skills):
        field = f"skills[{index}]"
        if not isinstance(skill, Mapping):
            yield card_error(field, "is not an object", "add id, name, description and tags")
            continue
        for name in ("id", "name", "description"):
            yield from _text(skill, name, f"{field}.")
        if not isinstance(skill.get("tags"), list):
            yield card_error(f"{field}.tags", "is not a list", "add a list of keywords")
        if skill.get("id") in ids:
            yield card_error(f"{field}.id", "is used by another skill", "use unique ids")
        ids.add(str(skill.get("id")))
        for name in ("inputModes", "outputModes"):
            yield from _modes(skill.get(name), f"{field}.{name}", is_required=False)


def _security(card: Mapping[str, Any]) -> Iterator[CardFinding]:
    schemes = card.get("securitySchemes", {})
    if not isinstance(schemes, Mapping):
        yield card_error("securitySchemes", "is not an object", "map names to security schemes")
        return
    for name in ("securityRequirements", "security"):
        requirements = card.get(name, [])
        if not isinstance(requirements, list):
            yield card_error(name, "is not a list", "list the alternatives")
            continue
        for index, requirement in enumerate(requirements):
            field = f"{name}[{index}]"
            if not isinstance(requirement, Mapping):
                yield card_error(field, "is not an object", "map scheme names to scopes")
                continue
            inner = requirement.get("schemes", requirement)
            for scheme in inner if isinstance(inner, Mapping) else ():
                if scheme not in schemes:
                    yield card_error(
                        field,
                        f"refers to the undefined scheme {scheme!r}",
                        "add it to securitySchemes",
                    )


def _signatures(signatures: Any) -> Iterator[CardFinding]:
    if signatures is None:
        return
    if not isinstance(signatures, list):
        yield card_error("signatures", "is not a list", "list protected and signature of each")
        return
    for index, signature in enumerate(signatures):
        is_complete = isinstance(signature, Mapping) and all(
            isinstance(signature.get(name), str) for name in ("protected", "signature")
        )
        if not is_complete:
            field = f"signatures[{index}]"
            yield card_error(
                field, "has no protected header or no signature", "sign the card again"
            )


def _repeats_interface(name: str, document: Mapping[str, Any], pairs: set[tuple[str, str]]) -> bool:
    """Return True if a 0.3 field contains only signed 0.3 interfaces."""
    if name in ("url", "preferredTransport"):
        return _is_pair(document.get("url"), document.get("preferredTransport"), pairs)
    if name == "additionalInterfaces":
        interfaces = document[name]
        return isinstance(interfaces, list) and all(
            isinstance(one, Mapping)
            and one.keys() <= {"url", "transport"}
            and _is_pair(one.get("url"), one.get("transport"), pairs)
            for one in interfaces
        )
    return name == "protocolVersion" and bool(pairs) and document[name] == PROTOCOL_V03


def _is_pair(url: Any, transport: Any, pairs: set[tuple[str, str]]) -> bool:
    return any(url == one[0] and (transport or JSONRPC) == one[1] for one in pairs)


def _is_contained(value: Any, expected: Any) -> bool:
    """Return True if a value adds nothing to the expected one; empty values add nothing."""
    if isinstance(value, Mapping) and isinstance(expected, Mapping):
        return all(_is_contained(each, expected.get(name)) for name, each in value.items())
    if isinstance(value, list) and isinstance(expected, list):
        return len(value) == len(expected) and all(map(_is_contained, value, expected))
    if expected is None:
        return value is None or value is False or value in ("", [], {})
    return type(value) is type(expected) and bool(value == expected)
