"""`acc card`: fetch an agent's card, check it, and show it."""

import asyncio
import sys
from pathlib import Path
from typing import Annotated, Any

import msgspec
from cyclopts import Parameter
from rich.console import Console
from rich.table import Table
from rich.text import Text

from acc.bootstrap.a2a_client import CardReport, inspect_card, typed_loopback
from acc.cli.call import Allow, TokenEnv, Url, about_token
from acc.cli.event_view import console_on, shown
from acc.cli.output import print_json
from acc.domain.errors import AddressRefused, Unauthenticated
from acc.domain.value_objects.agent_card import AgentCard
from acc.domain.value_objects.endpoint import RemoteEndpoint

_STYLES = {"fault": "bold red", "warning": "yellow"}


def card(
    url: Url,
    /,
    *,
    json: Annotated[
        bool, Parameter(help="Print as JSON.", negative=(), show_default=False)
    ] = False,
    key: Annotated[
        Path | None,
        Parameter(help="A public key (PEM, JWK or JWK set) to check the signature with."),
    ] = None,
    token_env: TokenEnv = "",
    allow: Allow = (),
) -> int:
    """Fetch an agent's card, check it, and show what the agent is and how to reach it.

    Ends with 1 if something is wrong with the card, or with its signature where --key is given.

    Example: acc card http://127.0.0.1:8000
    """
    url = url if "://" in url else f"https://{url}"
    address = RemoteEndpoint(
        url=url,
        token=f"env:{token_env}" if token_env else "",
        allow=(*allow, *typed_loopback(url)),
    )
    try:
        report = asyncio.run(inspect_card(address, key=key))
    except AddressRefused as error:
        raise AddressRefused(error.naming("--allow here"), detail=error.detail) from None
    except Unauthenticated as error:
        raise Unauthenticated(f"{error}; {about_token(token_env)}") from None
    if json:
        print_json(msgspec.json.format(msgspec.json.encode(_as_data(report)), indent=2))
    else:
        _show(report, console_on(sys.stdout), is_keyed=key is not None)
    return 0 if report.is_valid else 1


def _as_data(report: CardReport) -> dict[str, Any]:
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


def _show(report: CardReport, screen: Console, *, is_keyed: bool) -> None:
    if report.card is not None:
        screen.print(_table(report.card, report.url))
    if report.signed_by is not None:
        screen.print(shown(f"signed by the key {report.signed_by}", "green"))
    elif report.card is not None and report.card.signatures and not is_keyed:
        screen.print(shown("signed; give --key FILE to check by whom", "dim"))
    for finding in report.findings:
        field = finding.field or "the card"
        screen.print(
            shown(f"{finding.weight:<8} ", _STYLES[finding.weight])
            + shown(f"{field} {finding.text}; {finding.fix}")
        )
    if report.is_valid:
        screen.print(shown("the card is valid", "green"))
    else:
        faults = sum(finding.weight == "fault" for finding in report.findings)
        screen.print(shown(f"{faults} fault{'s' if faults != 1 else ''}", "bold red"))


def _table(held: AgentCard, url: str) -> Table:
    table = Table.grid(padding=(0, 2))

    def row(title: str, text: Text | str) -> None:
        table.add_row(Text(title, "dim"), text if isinstance(text, Text) else shown(text))

    row("agent", shown(held.name, "bold") + shown(f" {held.version}", "dim"))
    row("", held.description)
    row("card", url)
    if held.provider is not None:
        row("provider", f"{held.provider.organization} {held.provider.url}")
    for number, interface in enumerate(held.interfaces):
        tenant = f" tenant {interface.tenant}" if interface.tenant else ""
        told = f"{interface.binding:<9} {interface.version:<4} {interface.url}{tenant}"
        row("" if number else "interfaces", told)
    abilities = {
        "streaming": held.streaming,
        "push": held.push_notifications,
        "extended card": held.extended_card,
    }
    row("can", ", ".join(name for name, is_so in abilities.items() if is_so) or "-")
    row("reads", ", ".join(held.input_modes))
    row("writes", ", ".join(held.output_modes))
    row("callers", " or ".join(_needed(held)) or "anyone")
    for extension in held.extensions:
        row("extension", f"{extension.uri}{' (required)' if extension.required else ''}")
    for number, skill in enumerate(held.skills):
        row("" if number else "skills", shown(skill.id, "bold") + shown(f"  {skill.description}"))
    return table


def _needed(held: AgentCard) -> list[str]:
    needs = []
    for one in held.security:
        schemes = []
        for name, scopes in one.items():
            kind = str(held.security_schemes.get(name, {}).get("type", ""))
            told = f" ({', '.join(scopes)})" if scopes else ""
            schemes.append(f"{name}{f' [{kind}]' if kind else ''}{told}")
        needs.append(" and ".join(schemes))
    return list(filter(None, needs))
