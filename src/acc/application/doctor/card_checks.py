"""Checks of the agent card."""

import base64
import binascii
import re
from typing import Any

from acc.application.doctor.findings import Finding, fail, ok, skipped, verdict_from, warn
from acc.application.doctor.server import (
    CARD_PATH,
    MISSING,
    OLD_CARD_PATH,
    ServerUnderTest,
    card_in,
    is_url,
    objects,
    origin_of,
)
from acc.application.doctor.wire import Ask, Op, held, read_json
from acc.domain.errors import RemoteFailed
from acc.ports.outbound.remote_ports import ProbeAnswer

_REQUIRED = (
    "name",
    "description",
    "version",
    "capabilities",
    "defaultInputModes",
    "defaultOutputModes",
    "skills",
)
_MEDIA_TYPE = re.compile(r"(\*|[\w.+-]+)/(\*|[\w.+-]+)(\s*;.*)?")


async def card_path(visit: ServerUnderTest) -> Finding:
    """Look for the card where clients look for it."""
    answer = visit.cards.get(visit.card_url)
    if answer is None:
        return fail(f"no card: {_instead(visit)}", f"serve the card as JSON at {CARD_PATH}")
    if visit.card_url.endswith(OLD_CARD_PATH):
        return fail(
            f"the card is only at {OLD_CARD_PATH}: {_instead(visit)}",
            f"serve the same card at {CARD_PATH}, where clients of 0.3 and 1.0 look for it",
        )
    kind = answer.headers.get("content-type", "")
    if "json" not in kind:
        return warn(
            f"{visit.card_url} is sent as {kind or 'no type at all'}",
            "send the card as application/json",
        )
    return ok(visit.card_url)


def _instead(visit: ServerUnderTest) -> str:
    """Tell what is where a card should be; that there is none at its old address goes unsaid."""
    told = [f"{url} cannot be read: {why}" for url, why in visit.unreadable.items()]
    told += [
        _told(url, answer)
        for url, answer in visit.cards.items()
        if card_in(answer) is None
        and not (url.endswith(OLD_CARD_PATH) and answer.status in MISSING)
    ]
    return "; ".join(told)


def _told(url: str, answer: ProbeAnswer) -> str:
    if answer.status != 200:
        return f"{url} gave {answer.status}"
    kind = answer.headers.get("content-type", "")
    return f"{url} holds no JSON object (sent as {kind or 'no type at all'})"


async def card_old_path(visit: ServerUnderTest) -> Finding:
    """Look for the card where the first clients look for it."""
    found = [
        url
        for url, answer in visit.cards.items()
        if url.endswith(OLD_CARD_PATH) and answer.status == 200
    ]
    if found:
        return ok(found[0])
    is_there = any(url.endswith(OLD_CARD_PATH) for url in visit.unreadable)
    return warn(
        f"{'nothing that can be read' if is_there else 'nothing'} at {OLD_CARD_PATH}",
        f"serve the card there too: clients older than 0.3 look nowhere but at {OLD_CARD_PATH}",
    )


async def card_fields(visit: ServerUnderTest) -> Finding:
    """Look for the fields that a card must have."""
    card = visit.known_card
    document = card.document
    missing = [name for name in _REQUIRED if not document.get(name) and name != "capabilities"]
    if not isinstance(document.get("capabilities"), dict):
        missing.append("capabilities")
    if not card.is_one and not card.is_old:
        missing.append("supportedInterfaces")
    if card.is_old and not document.get("protocolVersion"):
        missing.append("protocolVersion")
    return verdict_from(
        [f"{name} is missing or empty" for name in missing],
        seen=f"{document.get('name')} {document.get('version')}",
        fix="fill in the fields that the specification requires of every card",
    )


async def card_generations(visit: ServerUnderTest) -> Finding:
    """See which generations the card offers."""
    card = visit.known_card
    offered = sorted({each.generation for each in card.interfaces if each.generation})
    if "1.0" in offered:
        return ok(f"offers {', '.join(offered)}")
    return warn(
        f"offers {', '.join(offered) or 'nothing'}",
        "list a 1.0 interface in supportedInterfaces; both generations can share one URL",
    )


async def card_skills(visit: ServerUnderTest) -> Finding:
    """See whether others can tell what the agent does, and with what input and output."""
    document = visit.known_card.document
    faults: list[str] = []
    hints: list[str] = []
    skills = objects(document.get("skills"))
    for number, skill in enumerate(skills, start=1):
        name = skill.get("id") or f"skill {number}"
        lacking = [each for each in ("id", "name", "description", "tags") if not skill.get(each)]
        if lacking:
            faults.append(f"{name} has no {', '.join(lacking)}")
        elif len(str(skill["description"])) < 15:
            hints.append(f"the description of {name} says little: {skill['description']!r}")
    names = [str(skill.get("id")) for skill in skills]
    faults += [f"{name} comes twice" for name in sorted({n for n in names if names.count(n) > 1})]
    return verdict_from(
        faults,
        seen=f"{len(skills)} described",
        fix="give each skill its own id, a name, tags, and a description by which another agent "
        "can decide when to call it",
        hints=hints,
    )


async def card_modes(visit: ServerUnderTest) -> Finding:
    """See whether input and output are declared as media types."""
    document = visit.known_card.document
    faults: list[str] = []
    for name in ("defaultInputModes", "defaultOutputModes"):
        modes = document.get(name)
        listed = modes if isinstance(modes, list) and modes else ["none"]
        wrong = [mode for mode in listed if not _is_media_type(mode)]
        if wrong:
            faults.append(f"{name}: {', '.join(map(str, wrong))}")
    return verdict_from(
        faults,
        seen=f"in {document.get('defaultInputModes')}, out {document.get('defaultOutputModes')}",
        fix='declare media types such as "text/plain" and "application/json", and check what '
        "comes in against them before an agent sees it",
    )


def _is_media_type(value: Any) -> bool:
    return isinstance(value, str) and _MEDIA_TYPE.fullmatch(value) is not None


async def card_interfaces(visit: ServerUnderTest) -> Finding:
    """See whether the declared interfaces can be used from where we are."""
    card = visit.known_card
    declared = objects(card.document.get("supportedInterfaces"))
    faults = [
        f"interface {number} has no {name}"
        for number, each in enumerate(declared, start=1)
        for name in ("url", "protocolBinding", "protocolVersion")
        if not each.get(name)
    ]
    faults += [
        f"{each['url']!r} is no absolute URL"
        for each in declared
        if each.get("url") and not is_url(each["url"])
    ]
    elsewhere = sorted(
        {each.url for each in card.interfaces if origin_of(each.url) != visit.target.origin}
    )
    hints = [f"{url} is another host than the one you named" for url in elsewhere]
    if not card.interfaces and not faults:
        faults.append("no interface at all")
    return verdict_from(
        faults,
        seen=", ".join(each.told for each in card.interfaces),
        fix="name binding, version and the URL by which clients reach the server (with acc serve: "
        "--public-url)",
        hints=hints,
    )


async def interfaces_answer(visit: ServerUnderTest) -> Finding:
    """Get the same task over every interface of the card."""
    task = await visit.task()
    faults: list[str] = []
    right: list[str] = []
    for interface in visit.interfaces:
        try:
            reply = await visit.ask(Ask(op=Op.GET, task=task["id"]), over=interface)
        except RemoteFailed as error:
            faults.append(f"{interface.told}: {error}")
            continue
        found = held(reply.result).get("task", {})
        if found.get("id") == task["id"]:
            right.append(interface.told)
        else:
            faults.append(f"{interface.told} at {interface.url} gave {reply.told}")
    others = [each.binding for each in visit.known_card.interfaces if not each.is_spoken]
    left = f"; not tried: {', '.join(sorted(set(others)))}" if others else ""
    return verdict_from(
        faults,
        seen=f"the same task over {', '.join(right)}{left}",
        fix="let every interface that the card names answer as its binding says, over the same "
        "tasks, or take it off the card",
    )


async def card_cache(visit: ServerUnderTest) -> Finding:
    """See whether clients can keep the card and ask whether it has changed."""
    visit.known_card  # noqa: B018 - raises if there is none
    headers = visit.cards[visit.card_url].headers
    etag = headers.get("etag", "")
    hints = [] if etag else ["no ETag"]
    if "max-age" not in headers.get("cache-control", ""):
        hints.append("no Cache-Control with max-age")
    if etag:
        again = await visit.fetch(visit.card_url, {"If-None-Match": etag})
        if again.status != 304:
            hints.append(f"If-None-Match with the ETag gave {again.status}, not 304")
    return verdict_from(
        [],
        seen=f"ETag, {headers.get('cache-control')}, 304 when unchanged",
        fix="send ETag and Cache-Control: max-age with the card, and 304 for a card that is known",
        hints=hints,
    )


async def card_signature(visit: ServerUnderTest) -> Finding:
    """See whether signatures, if there are any, have the form of signatures."""
    signatures = objects(visit.known_card.document.get("signatures"))
    if not signatures:
        return skipped("the card is not signed, which is optional")
    faults: list[str] = []
    for number, signature in enumerate(signatures, start=1):
        header = _protected(signature.get("protected"))
        lacking = [name for name in ("alg", "kid") if not header.get(name)]
        if lacking or not signature.get("signature"):
            faults.append(f"signature {number} lacks {', '.join(lacking) or 'its value'}")
        elif str(header["alg"]).lower() == "none":
            faults.append(f"signature {number} has the algorithm none")
    return verdict_from(
        faults,
        seen=f"{len(signatures)}, well-formed; whether they are right needs the signer's key",
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
