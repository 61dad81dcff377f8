"""Construct what identifies and limits the callers of a server: tokens, issuers, rate limits."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from acc.application.a2a.quotas import rates_by_name
from acc.domain.errors import InvalidInput
from acc.domain.value_objects.endpoint import is_loopback_url, loopback_allow_entries
from acc.ports.outbound.auth_ports import (
    CertificateVerifierPort,
    TokenVerifierPort,
    UsedIdsPort,
)
from acc.ports.outbound.limit_ports import RateLimiterPort

if TYPE_CHECKING:
    from acc.adapters.auth.bearer_tokens import TokenEntry


def make_verifier(
    *,
    tokens: Path | None = None,
    issuers: Sequence[str] = (),
    audience: Sequence[str] = (),
    default_scopes: Sequence[str] = (),
    allow: Sequence[str] = (),
    used_ids: UsedIdsPort | None = None,
) -> TokenVerifierPort | None:
    """Return a verifier for a token file and OIDC issuers, None if there is neither.

    An issuer is a URL, or PREFIX=URL. A loopback issuer needs no entry in `allow`. With `used_ids`
    a JWT is accepted once.
    """
    from acc.adapters.auth.bearer_tokens import TokenFile
    from acc.adapters.auth.jwt_verifier import JwtVerifier, TrustedIssuer, VerifierChain

    verifiers: list[TokenVerifierPort] = []
    if tokens is not None:
        verifiers.append(TokenFile(tokens))
    if issuers:
        trusted = [
            TrustedIssuer(
                issuer=url,
                prefix=prefix,
                audience=audience,
                default_scopes=default_scopes,
                single_use=used_ids is not None,
            )
            for prefix, url in map(split_issuer, issuers)
        ]
        if tokens is not None and not all(issuer.prefix for issuer in trusted):
            raise InvalidInput(
                "with --tokens an issuer needs a prefix, such as --oidc "
                "staff=https://login.example.com, so that its callers differ from those of the file"
            )
        urls = [issuer.issuer for issuer in trusted if is_loopback_url(issuer.issuer)]
        loopback = [entry for url in urls for entry in loopback_allow_entries(url)]
        verifiers.append(JwtVerifier(trusted, allow=(*allow, *loopback), used_ids=used_ids))
    return VerifierChain(verifiers) if len(verifiers) > 1 else next(iter(verifiers), None)


def make_certificates(
    *, proxies: Sequence[str] = (), header: str, permissions: Sequence[str] = ()
) -> CertificateVerifierPort:
    """Return the verifier of client certificates; no permissions mean all."""
    from acc.adapters.auth.certificates import ClientCertificates

    return ClientCertificates(proxies=proxies, header=header, permissions=permissions or None)


def make_limiter(
    rates: Sequence[str],
    *,
    bytes_per_caller: Sequence[str] = (),
    tools: Sequence[str] = (),
    tokens_per_day: int | None = None,
    cost_per_day: float | None = None,
    store: str | Path = "memory",
    on_failure: Literal["allow", "deny"] = "allow",
) -> RateLimiterPort | None:
    """Return a rate limiter, None if there is no limit.

    A rate is like "100/minute", or "INTENT=100/minute" for one intent. Those of tools are like
    "TOOL=100/minute".
    """
    limits = (*rates, *bytes_per_caller, *tools, tokens_per_day, cost_per_day)
    if all(limit is None for limit in limits):
        return None
    from acc.bootstrap.counters import RateLimiter

    intents, per_tool = rates_by_name(rates), rates_by_name(tools)
    if "" in per_tool:
        raise InvalidInput(f"a rate of a tool is written TOOL=RATE, got {per_tool[''][0]!r}")
    return RateLimiter(
        intents.pop("", []),
        per_intent=intents,
        per_tool=per_tool,
        bytes_per_caller=bytes_per_caller,
        tokens_per_day=tokens_per_day,
        cost_per_day=cost_per_day,
        store=store,
        on_failure=on_failure,
    )


def make_used_ids(store: str | Path) -> UsedIdsPort:
    """Return the ids that may be used once; servers with the same store share them."""
    from acc.bootstrap.counters import UsedIds

    return UsedIds(store)


def split_issuer(text: str) -> tuple[str, str]:
    """Return prefix and URL of an issuer that is written as URL or PREFIX=URL."""
    prefix, separator, url = text.partition("=")
    return (prefix, url) if separator and "/" not in prefix else ("", text)


def add_token(
    path: Path,
    *,
    caller: str,
    tenant: str = "",
    permissions: Collection[str] | None = None,
    expires: float | None = None,
) -> str:
    """Append the hash of a new token to a file and return the token."""
    from acc.adapters.auth.bearer_tokens import TokenEntry, append_entry, new_token, token_hash

    token = new_token()
    entry = TokenEntry(
        sha256=token_hash(token),
        caller=caller,
        tenant=tenant,
        permissions=permissions,
        expires=expires,
    )
    append_entry(path, entry)
    return token


def read_tokens(path: Path) -> "list[TokenEntry]":
    """Return the entries of a token file."""
    from acc.adapters.auth.bearer_tokens import read_entries

    return read_entries(path)
