"""Checks of the agent card."""

import base64
import binascii
import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from acc.application.doctor.findings import (
    Finding,
    fail,
    note,
    ok,
    skipped,
    verdict_from,
    warn,
)
from acc.application.doctor.server import (
    CARD_PATH,
    LEGACY_CARD_PATH,
    NOT_FOUND_STATUS,
    ServerUnderTest,
    is_absolute_url,
    objects,
    parse_card,
)
from acc.application.doctor.wire import Op, ProbeCall, read_json, read_payload
from acc.domain.errors import RemoteFailed
from acc.domain.value_objects.agent_card import GRPC
from acc.domain.value_objects.endpoint import origin_of

_REQUIRED = (
    "name",
    "description",
    "version",
    "capabilities",
    "defaultInputModes",
    "defaultOutputModes",
    "skills",
)
_HOST_AND_PORT = re.compile(r"(\[[0-9a-fA-F:.]+\]|[\w.-]+):\d{1,5}")
_MEDIA_TYPE = re.compile(r"(\*|[\w.+-]+)/(\*|[\w.+-]+)(\s*;.*)?")


async def card_path(server: ServerUnderTest) -> Finding:
    """Find the card at the standard path."""
    response = server.cards.get(server.card_url)
    if response is None:
        return fail(
            f"no card: {_describe_responses(server)}", f"serve the card as JSON at {CARD_PATH}"
        )
    if server.card_url.endswith(LEGACY_CARD_PATH):
        return fail(
            f"the card is only at {LEGACY_CARD_PATH}: {_describe_responses(server)}",
            f"serve the same card at {CARD_PATH}, where 0.3 and 1.0 clients look for it",
        )
    content_type = response.headers.get("content-type", "")
    if "json" not in content_type:
        return warn(
            f"{server.card_url} has the content type {content_type or '(none)'}",
            "send the card as application/json",
        )
    return ok(server.card_url)


def _describe_responses(server: ServerUnderTest) -> str:
    """Describe the responses without a card; a missing card at the legacy path is not mentioned."""
    problems = [f"{url} cannot be read: {reason}" for url, reason in server.unreadable.items()]
    for url, response in server.cards.items():
        is_missing = response.status in NOT_FOUND_STATUS
        if parse_card(response) is not None or (url.endswith(LEGACY_CARD_PATH) and is_missing):
            continue
        if response.status != 200:
            problems.append(f"{url} gave {response.status}")
        else:
            content_type = response.headers.get("content-type") or "(none)"
            problems.append(f"{url} is not a JSON object (content type {content_type})")
    return "; ".join(problems)


async def card_legacy_path(server: ServerUnderTest) -> Finding:
    """Find the card at the path of the first clients."""
    for url, response in server.cards.items():
        if url.endswith(LEGACY_CARD_PATH) and response.status == 200:
            return ok(url)
    is_unreadable = any(url.endswith(LEGACY_CARD_PATH) for url in server.unreadable)
    return note(
        f"{'an unreadable response' if is_unreadable else 'no card'} at {LEGACY_CARD_PATH}",
        f"serve the card there too: clients older than 0.3 only look at {LEGACY_CARD_PATH}",
    )


async def card_fields(server: ServerUnderTest) -> Finding:
    """Check the required fields of the card."""
    card = server.require_card
    document = card.document
    missing = [name for name in _REQUIRED if not document.get(name) and name != "capabilities"]
    if not isinstance(document.get("capabilities"), dict):
        missing.append("capabilities")
    if not card.has_v1 and not card.has_v03:
        missing.append("supportedInterfaces")
    if card.has_v03 and not document.get("protocolVersion"):
        missing.append("protocolVersion")
    return verdict_from(
        [f"{name} is missing or empty" for name in missing],
        observation=f"{document.get('name')} {document.get('version')}",
        fix="add the fields that the specification requires",
    )


async def card_versions(server: ServerUnderTest) -> Finding:
    """Check which protocol versions the card offers."""
    card = server.require_card
    offered = sorted({each.protocol_version for each in card.interfaces if each.protocol_version})
    if "1.0" in offered:
        return ok(f"offers {', '.join(offered)}")
    return warn(
        f"offers {', '.join(offered) or 'none'}",
        "list a 1.0 interface in supportedInterfaces; both versions can share one URL",
    )


async def card_skills(server: ServerUnderTest) -> Finding:
    """Check the descriptions of the skills."""
    document = server.require_card.document
    problems: list[str] = []
    warnings: list[str] = []
    skills = objects(document.get("skills"))
    for number, skill in enumerate(skills, start=1):
        name = skill.get("id") or f"skill {number}"
        missing = [each for each in ("id", "name", "description", "tags") if not skill.get(each)]
        if missing:
            problems.append(f"{name} has no {', '.join(missing)}")
        elif len(str(skill["description"])) < 15:
            warnings.append(f"the description of {name} is short: {skill['description']!r}")
    names = [str(skill.get("id")) for skill in skills]
    problems += [
        f"{name} is not unique" for name in sorted({n for n in names if names.count(n) > 1})
    ]
    return verdict_from(
        problems,
        observation=f"{len(skills)} described",
        fix="give each skill a unique id, a name, tags, and a description from which another agent "
        "can decide when to call it",
        warnings=warnings,
    )


async def card_modes(server: ServerUnderTest) -> Finding:
    """Check that input and output are declared as media types."""
    document = server.require_card.document
    problems: list[str] = []
    for name in ("defaultInputModes", "defaultOutputModes"):
        modes = document.get(name)
        listed = modes if isinstance(modes, list) and modes else ["none"]
        wrong = [mode for mode in listed if not _is_media_type(mode)]
        if wrong:
            problems.append(f"{name}: {', '.join(map(str, wrong))}")
    return verdict_from(
        problems,
        observation=f"input {document.get('defaultInputModes')}, "
        f"output {document.get('defaultOutputModes')}",
        fix='declare media types such as "text/plain" and "application/json", and validate the '
        "input against them",
    )


def _is_media_type(value: Any) -> bool:
    return isinstance(value, str) and _MEDIA_TYPE.fullmatch(value) is not None


async def card_interfaces(server: ServerUnderTest) -> Finding:
    """Check that the declared interfaces are complete."""
    card = server.require_card
    declared = objects(card.document.get("supportedInterfaces"))
    problems = [
        f"interface {number} has no {name}"
        for number, each in enumerate(declared, start=1)
        for name in ("url", "protocolBinding", "protocolVersion")
        if not each.get(name)
    ]
    problems += [
        f"{each['url']!r} is not an absolute URL"
        for each in declared
        if each.get("url") and not is_absolute_url(each["url"]) and not _is_grpc_target(each)
    ]
    other_hosts = sorted(
        {
            each.url
            for each in card.interfaces
            if origin_of(each.url) != server.target.origin
            and not (each.binding == GRPC and _is_same_host(each.url, server.target.url))
        }
    )
    warnings = [f"{url} is on another host than the given URL" for url in other_hosts]
    grpc = [f"GRPC {each.get('protocolVersion')}" for each in declared if _is_grpc_target(each)]
    if not card.interfaces and not grpc and not problems:
        problems.append("no interface")
    return verdict_from(
        problems,
        observation=", ".join([*(each.label for each in card.interfaces), *grpc]),
        fix="declare binding, version and the public URL of the server (with acc serve: "
        "--public-url)",
        warnings=warnings,
    )


def _is_same_host(url: str, other: str) -> bool:
    """Return True if two URLs differ in their ports at most, as those of HTTP and gRPC do."""
    return urlsplit(url).hostname == urlsplit(other).hostname


def _is_grpc_target(interface: Mapping[str, Any]) -> bool:
    """Return True for a gRPC interface at HOST:PORT, which is not a URL."""
    is_grpc = str(interface.get("protocolBinding", "")).upper() == GRPC
    return is_grpc and _HOST_AND_PORT.fullmatch(str(interface.get("url"))) is not None


async def card_schemas(server: ServerUnderTest) -> Finding:
    """Look for the schemas of inputs and outputs in the extensions of the card."""
    capabilities = server.require_card.document.get("capabilities")
    extensions = capabilities.get("extensions") if isinstance(capabilities, dict) else None
    uris = [
        str(extension.get("uri"))
        for extension in objects(extensions)
        if '"inputSchema"' in json.dumps(extension.get("params"))
    ]
    if uris:
        return ok(f"schemas of inputs in {', '.join(uris)}")
    return note(
        "not seen: the card declares media types only",
        "declare a JSON Schema for the input and output of each skill in an extension of the card",
    )


async def interfaces_answer(server: ServerUnderTest) -> Finding:
    """Get the same task over every interface."""
    task = await server.task()
    problems: list[str] = []
    working: list[str] = []
    for interface in server.interfaces:
        try:
            reply = await server.call(ProbeCall(op=Op.GET, task=task["id"]), interface=interface)
        except RemoteFailed as error:
            problems.append(f"{interface.label}: {error}")
            continue
        other = read_payload(reply.result).get("task", {})
        if other.get("id") == task["id"]:
            working.append(interface.label)
        else:
            problems.append(f"{interface.label} at {interface.url} gave {reply.summary}")
    untested = [each.binding for each in server.require_card.interfaces if not each.is_supported]
    suffix = f"; not tested: {', '.join(sorted(set(untested)))}" if untested else ""
    return verdict_from(
        problems,
        observation=f"the same task over {', '.join(working)}{suffix}",
        fix="serve the same tasks over every interface of the card, or remove the interface",
    )


async def card_cache(server: ServerUnderTest) -> Finding:
    """Check the caching headers of the card."""
    server.require_card  # noqa: B018 - raises if there is none
    headers = server.cards[server.card_url].headers
    etag = headers.get("etag", "")
    warnings = [] if etag else ["no ETag"]
    if "max-age" not in headers.get("cache-control", ""):
        warnings.append("no Cache-Control with max-age")
    if etag:
        again = await server.fetch(server.card_url, {"If-None-Match": etag})
        if again.status != 304:
            warnings.append(f"If-None-Match with the ETag gave {again.status} instead of 304")
    return verdict_from(
        [],
        observation=f"ETag, {headers.get('cache-control')}, 304 when unchanged",
        fix="send ETag and Cache-Control: max-age with the card, and 304 if it is unchanged",
        warnings=warnings,
    )


async def card_signature(server: ServerUnderTest) -> Finding:
    """Check the form of the signatures."""
    signatures = objects(server.require_card.document.get("signatures"))
    if not signatures:
        return skipped("the card is not signed, which is optional")
    problems: list[str] = []
    for number, signature in enumerate(signatures, start=1):
        header = _protected(signature.get("protected"))
        missing = [name for name in ("alg", "kid") if not header.get(name)]
        if missing or not signature.get("signature"):
            problems.append(f"signature {number} has no {', '.join(missing) or 'value'}")
        elif str(header["alg"]).lower() == "none":
            problems.append(f"signature {number} has the algorithm none")
    return verdict_from(
        problems,
        observation=f"{len(signatures)}, well-formed; `acc card --key` verifies them",
        fix="sign the canonical JSON (RFC 8785) of the card as a JWS with alg and kid",
    )


def _protected(value: Any) -> dict[str, Any]:
    if not isinstance(value, str):
        return {}
    try:
        header = read_json(base64.urlsafe_b64decode(value + "=" * (-len(value) % 4)))
    except (binascii.Error, ValueError):
        return {}
    return header if isinstance(header, dict) else {}
