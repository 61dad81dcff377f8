"""What a call of a remote agent is made of: the guarded HTTP client, the token, the allow-list."""

import asyncio
import os
import ssl
from base64 import b64decode
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from acc.domain.errors import (
    AccError,
    AddressRefused,
    InvalidInput,
    PermissionDenied,
    RemoteFailed,
    Unauthenticated,
)
from acc.domain.value_objects.agent_card import AgentCard
from acc.domain.value_objects.content import Part
from acc.domain.value_objects.endpoint import (
    DownloadLimits,
    RemoteEndpoint,
    check_remote_url,
    is_sendable,
)
from acc.domain.value_objects.evaluation_run import AgentChoice

if TYPE_CHECKING:
    import httpx

    from acc.adapters.a2a.client.card_validation import CardFinding
    from acc.adapters.a2a.client.client import A2AClient
    from acc.adapters.a2a.client.notifications import NotificationReceiver
    from acc.adapters.auth.keys import SigningKey


_REDIRECTS = 3


def make_remote(address: RemoteEndpoint, *, allow: Sequence[str] = ()) -> "A2AClient":
    """Return a client of one remote agent.

    What may be called although it is not public is named by the address, by whoever runs this, and
    by ACC_ALLOW in the environment, separated by commas.
    """
    from acc.adapters.a2a.client.client import A2AClient, Door
    from acc.adapters.http.client import STREAMING, NetworkOptions, guarded_client

    allowed = (*address.allow, *allow, *allowed_by_environment())

    @asynccontextmanager
    async def opened() -> AsyncIterator["httpx.AsyncClient"]:
        wiring = NetworkOptions(tls=tls())
        async with guarded_client(allow=allowed, redirects=_REDIRECTS, wiring=wiring) as client:
            yield client

    door = Door(open=opened, streaming=STREAMING)
    return A2AClient(address, door=door, token=token_of(address.token))


def make_receiver(
    url: str,
    *,
    secret: str | None = None,
    keys: Mapping[str, Any] | bytes | str | None = None,
) -> "NotificationReceiver":
    """Return what takes the notifications of remote agents that are sent to a URL: an ASGI app.

    Give the `secret` that is shared with their server, or its public `keys`, a JWK Set, where the
    server signs what it sends.
    """
    from acc.adapters.a2a.client.notifications import NotificationReceiver
    from acc.adapters.auth.keys import trusted_keys
    from acc.adapters.auth.notification_signatures import NotificationVerifier

    if secret is None and keys is None:
        return NotificationReceiver(url)
    verifier = NotificationVerifier(
        secret=secret, keys=None if keys is None else trusted_keys(keys), audience=url
    )
    return NotificationReceiver(url, verify=verifier.verify)


@asynccontextmanager
async def receiving(
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    public_url: str = "",
    secret: str | None = None,
    keys: Mapping[str, Any] | bytes | str | None = None,
) -> AsyncIterator["NotificationReceiver"]:
    """Take notifications on a port of this machine for as long as the context lasts.

    `public_url` is where the port is reached from outside, if that is another URL.
    """
    from acc.adapters.a2a.server.uvicorn import bind, serving

    listening = bind(host, port)
    name = f"[{host}]" if ":" in host else host
    try:
        url = public_url or f"http://{name}:{listening.getsockname()[1]}"
        receiver = make_receiver(url, secret=secret, keys=keys)
        async with serving(receiver, listening):
            yield receiver
    finally:
        listening.close()


async def fetch_guarded(url: str, terms: DownloadLimits, *, allow: Sequence[str] = ()) -> Part:
    """Return the file at a URL, which must be public, in `allow`, or in ACC_ALLOW."""
    from acc.adapters.http.client import NetworkOptions
    from acc.adapters.http.download import fetch_file

    allowed = (*allow, *allowed_by_environment())
    return await fetch_file(url, terms, allow=allowed, wiring=NetworkOptions(tls=tls()))


@lru_cache(maxsize=1)
def tls() -> ssl.SSLContext:
    """Return how certificates are checked, which takes a while to load."""
    import httpx

    return httpx.create_ssl_context(trust_env=False)


_THIS_MACHINE = ("localhost", "127.0.0.1", "[::1]")


def allowed_by_environment() -> tuple[str, ...]:
    """Return what ACC_ALLOW lists."""
    return tuple(filter(None, map(str.strip, os.environ.get("ACC_ALLOW", "").split(","))))


def token_of(reference: str) -> str:
    """Return a token, or the one that the environment holds under the name after "env:".

    One that no header can carry is refused here, where its value is not told.
    """
    found = secret_of(reference)
    if not is_sendable(found):
        name = reference.removeprefix("env:") if reference.startswith("env:") else ""
        held = f"what the environment variable {name} holds" if name else "this"
        raise InvalidInput(
            f"{held} is no token: it has a space, a line break, or a letter beyond ASCII in it"
        )
    return found


def secret_of(reference: str) -> str:
    """Return a text, or the one that the environment holds under the name after "env:"."""
    if not reference.startswith("env:"):
        return reference
    name = reference.removeprefix("env:")
    found = os.environ.get(name, "").strip()
    if not found:
        raise InvalidInput(f"the environment holds no token {name!r}; set it, or give the token")
    return found


def typed_loopback(url: str) -> tuple[str, ...]:
    """Return the allow-list entries for a URL of this machine that someone typed at a prompt.

    Who types a URL of their own machine means it, by whatever name: a card may call it 127.0.0.1
    where they wrote localhost. It is that port and nothing else, so that a redirect, or a card, to
    another server of this machine is refused all the same. What is no URL is refused here.
    """
    check_remote_url(url)
    parts = urlsplit(url)
    host = (parts.hostname or "").removesuffix(".")
    try:
        is_loopback = ip_address(host).is_loopback
    except ValueError:
        is_loopback = host == "localhost" or host.endswith(".localhost")
    if not is_loopback:
        return ()
    port = parts.port or (443 if parts.scheme == "https" else 80)
    own = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return tuple(dict.fromkeys([own, *(f"{name}:{port}" for name in _THIS_MACHINE)]))


def check_allow(entries: Sequence[str]) -> None:
    """Refuse what is no entry of an allow-list, before anything hangs on it."""
    if not entries:
        return
    from acc.adapters.http.addresses import AllowList

    try:
        AllowList(entries)
    except InvalidInput as error:
        raise InvalidInput(f"--allow: {error}") from None


def evaluated_address(name: str, url: str) -> RemoteEndpoint:
    """Return where an agent under evaluation is; its token is in ACC_TOKEN_<NAME>, or ACC_TOKEN."""
    own = f"ACC_TOKEN_{name.replace('-', '_').upper()}"
    found = next((given for given in (own, "ACC_TOKEN") if os.environ.get(given)), "")
    token = f"env:{found}" if found else ""
    return RemoteEndpoint(url=url, token=token, allow=typed_loopback(url), timeout=3600.0)


def check_remotes(agents: Sequence[AgentChoice], *, allow: Sequence[str] = ()) -> None:
    """Refuse an evaluation of agents that cannot be called, before its first turn."""
    for agent in agents:
        if agent.kind.startswith("a2a:"):
            asyncio.run(_check_remote(agent.name, agent.kind.removeprefix("a2a:"), allow))


async def _may_call(remote: "A2AClient") -> None:
    """Ask for a task that nobody has: only whether we may ask is of interest."""
    try:
        await remote.get("acc-eval-asks-whether-it-may-call")
    except (AddressRefused, Unauthenticated, PermissionDenied):
        raise
    except AccError as error:
        if isinstance(error, RemoteFailed) and error.retryable:
            raise  # the address that its card names cannot be reached


async def _check_remote(name: str, url: str, allow: Sequence[str]) -> None:
    from acc.adapters.a2a.client.client import chosen_interfaces

    address = evaluated_address(name, url)
    remote = make_remote(address, allow=allow)
    try:
        chosen_interfaces(await remote.card())
        await _may_call(remote)
    except AddressRefused as error:
        said = f"agent {name!r}: {error.naming('--allow here')}"
        raise AddressRefused(said, detail=error.detail) from None
    except (Unauthenticated, PermissionDenied) as error:
        own = f"ACC_TOKEN_{name.replace('-', '_').upper()}"
        raise type(error)(f"agent {name!r}: {error}; put its token into {own}") from None
    except AccError as error:
        raise RemoteFailed(
            f"agent {name!r}: {error}; is it served there? `acc card {address.place}` shows what "
            "answers"
        ) from None


def new_id() -> str:
    """Return an id for a message, which no other has."""
    from acc.adapters.system.clock import RandomIds

    return RandomIds().new()


@dataclass(frozen=True, slots=True, kw_only=True)
class CardReport:
    """A card as it was found: its content, what is wrong with it, and who signed it.

    `signed_by` is the name of the key, None where no key was given to check with.
    """

    url: str
    body: bytes
    findings: "Sequence[CardFinding]"
    card: AgentCard | None
    signed_by: str | None = None

    @property
    def is_valid(self) -> bool:
        """Tell whether clients can use the card."""
        return not any(finding.weight == "fault" for finding in self.findings)


async def inspect_card(address: RemoteEndpoint, *, key: Path | None = None) -> CardReport:
    """Return what there is to say about the card at an address.

    With a key that signed a part of it, the card is that part.
    """
    from acc.adapters.a2a.client.card_validation import CardFinding, Weight, check_card
    from acc.adapters.a2a.wire.card_codec import read_card
    from acc.adapters.auth.card_signatures import load_key

    trusted = None if key is None else load_key(key)
    found = await make_remote(address).fetch_card()
    findings = check_card(found.body)
    signed = _Signed("", found.body)
    if trusted is not None:
        try:
            signed = _signed(found.body, trusted)
        except Unauthenticated as error:
            fix = "get the card, or the key, from who runs the agent"
            findings.append(CardFinding(Weight.FAULT, "signatures", str(error), fix))
    for field in signed.unsigned:
        said = f"is not covered by the signature of the key {signed.key}, so anyone can change it"
        fix = "do not use it; who runs the agent should sign the card as it is sent"
        findings.append(CardFinding(Weight.FAULT, field, said, fix))
    try:
        card = read_card(signed.body)
    except RemoteFailed:
        card = None
    signed_by = None if signed.unsigned else signed.key or None
    return CardReport(
        url=found.url, body=signed.body, findings=findings, card=card, signed_by=signed_by
    )


class _Signed(NamedTuple):
    """A card as far as a key signed it, and what it held beside that."""

    key: str
    body: bytes
    unsigned: Sequence[str] = ()


def _signed(body: bytes, key: "SigningKey") -> _Signed:
    """Return what a key signed: a card as it was sent, or its 1.0 form alone."""
    import msgspec

    from acc.adapters.a2a.client.card_validation import signed_part, unsigned_fields
    from acc.adapters.a2a.wire.card_codec import card_content, read_card
    from acc.adapters.auth.card_signatures import verify

    try:
        document = msgspec.json.decode(body, type=dict[str, Any])
        signatures = document.get("signatures")
        held = [one for one in signatures or () if isinstance(one, Mapping)]
    except (msgspec.DecodeError, TypeError):
        raise Unauthenticated(
            "the card cannot be read, so its signature cannot be checked"
        ) from None
    # Whoever gives the key trusts it, whatever name the signer has for it.
    keys = dict.fromkeys(filter(None, map(_key_name, held)), key)
    try:
        return _Signed(verify(document, held, keys=keys), body)
    except Unauthenticated:
        try:
            card = read_card(body)
        except RemoteFailed:
            card = None
        if card is None:
            raise
    name = verify(card_content(card), held, keys=keys)
    unsigned = unsigned_fields(document, card)
    return _Signed(name, msgspec.json.encode(signed_part(document, card)), unsigned)


def _key_name(signature: Mapping[str, Any]) -> str:
    """Return what the header of a signature calls its key."""
    import msgspec

    protected = signature.get("protected")
    if not isinstance(protected, str):
        return ""
    try:
        padded = protected + "=" * (-len(protected) % 4)
        name = msgspec.json.decode(b64decode(padded, b"-_"), type=dict[str, Any]).get("kid")
    except (ValueError, msgspec.MsgspecError):
        return ""
    return name if isinstance(name, str) else ""
