"""`acc card`: fetch, validate and print an agent card."""

import asyncio
import sys
from pathlib import Path
from typing import Annotated, Any

import msgspec
from cyclopts import Parameter
from rich.console import Console
from rich.table import Table
from rich.text import Text

from acc.bootstrap.a2a_client import inspect_card
from acc.cli.call import Allow, TokenEnv, Url, token_advice
from acc.cli.event_view import make_console, safe_text
from acc.cli.options import NO_TLS, TlsOptions, with_tls_advice
from acc.cli.output import count_noun, print_json
from acc.domain.errors import AddressRefused, RemoteFailed, Unauthenticated
from acc.domain.value_objects.agent_card import AgentCard, CardReport
from acc.domain.value_objects.endpoint import RemoteEndpoint, add_scheme, loopback_allow_entries

_STYLES = {"error": "bold red", "warning": "yellow"}


def card(
    url: Url,
    /,
    *,
    json: Annotated[
        bool, Parameter(help="Print as JSON.", negative=(), show_default=False)
    ] = False,
    key: Annotated[
        Path | None,
        Parameter(help="Public key (PEM, JWK or JWK set) to verify the signature."),
    ] = None,
    token_env: TokenEnv = "",
    allow: Allow = (),
    tls: TlsOptions = NO_TLS,
) -> int:
    """Fetch an agent card, validate it, and print what the agent is and how to reach it.

    Exits with status 1 if the card is invalid, or if --key is given and the signature is invalid.

    Example: acc card http://127.0.0.1:8000
    """
    url = add_scheme(url)
    endpoint = RemoteEndpoint(
        url=url,
        token=f"env:{token_env}" if token_env else "",
        allow=(*allow, *loopback_allow_entries(url)),
        tls=tls.to_client_tls(),
    )
    try:
        report = asyncio.run(inspect_card(endpoint, key=key))
    except AddressRefused as error:
        raise AddressRefused(error.naming("--allow here"), detail=error.detail) from None
    except Unauthenticated as error:
        raise Unauthenticated(f"{error}; {token_advice(token_env, tls)}") from None
    except RemoteFailed as error:
        raise with_tls_advice(error) from None
    if json:
        print_json(msgspec.json.format(msgspec.json.encode(_to_json_data(report)), indent=2))
    else:
        _print_report(report, make_console(sys.stdout), has_key=key is not None)
    return 0 if report.is_valid else 1


def _to_json_data(report: CardReport) -> dict[str, Any]:
    try:
        document = msgspec.json.decode(report.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        document = None
    return {
        "url": report.url,
        "valid": report.is_valid,
        "signed_by": report.signed_by,
        "findings": [finding._asdict() for finding in report.findings],
        "card": document,
    }


def _print_report(report: CardReport, output: Console, *, has_key: bool) -> None:
    if report.card is not None:
        output.print(_table(report.card, report.url))
    if report.signed_by is not None:
        output.print(safe_text(f"signed by key {report.signed_by}", "green"))
    elif report.card is not None and report.card.signatures and not has_key:
        output.print(safe_text("signed; pass --key FILE to verify the signature", "dim"))
    for finding in report.findings:
        field = finding.field or "the card"
        output.print(
            safe_text(f"{finding.severity:<8} ", _STYLES[finding.severity])
            + safe_text(f"{field} {finding.text}; {finding.fix}")
        )
    if report.is_valid:
        output.print(safe_text("the card is valid", "green"))
    else:
        errors = sum(finding.severity == "error" for finding in report.findings)
        output.print(safe_text(count_noun(errors, "error"), "bold red"))


def _table(card: AgentCard, url: str) -> Table:
    table = Table.grid(padding=(0, 2))

    def row(title: str, text: Text | str) -> None:
        table.add_row(Text(title, "dim"), text if isinstance(text, Text) else safe_text(text))

    row("agent", safe_text(card.name, "bold") + safe_text(f" {card.version}", "dim"))
    row("", card.description)
    row("card", url)
    if card.provider is not None:
        row("provider", f"{card.provider.organization} {card.provider.url}")
    for number, interface in enumerate(card.interfaces):
        tenant = f" tenant {interface.tenant}" if interface.tenant else ""
        text = f"{interface.binding:<9} {interface.version:<4} {interface.url}{tenant}"
        row("" if number else "interfaces", text)
    capabilities = {
        "streaming": card.streaming,
        "push": card.push_notifications,
        "extended card": card.extended_card,
    }
    row(
        "can", ", ".join(name for name, is_supported in capabilities.items() if is_supported) or "-"
    )
    row("reads", ", ".join(card.input_modes))
    row("writes", ", ".join(card.output_modes))
    row("callers", " or ".join(_security_requirements(card)) or "anyone")
    for extension in card.extensions:
        row("extension", f"{extension.uri}{' (required)' if extension.required else ''}")
    for number, skill in enumerate(card.skills):
        row(
            "" if number else "skills",
            safe_text(skill.id, "bold") + safe_text(f"  {skill.description}"),
        )
    return table


def _security_requirements(card: AgentCard) -> list[str]:
    alternatives = []
    for requirement in card.security:
        schemes = []
        for name, scopes in requirement.items():
            kind = str(card.security_schemes.get(name, {}).get("type", ""))
            scope_text = f" ({', '.join(scopes)})" if scopes else ""
            schemes.append(f"{name}{f' [{kind}]' if kind else ''}{scope_text}")
        alternatives.append(" and ".join(schemes))
    return list(filter(None, alternatives))
