"""`acc token`: manage the bearer tokens of a server."""

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import App, Parameter
from rich.markup import escape
from rich.table import Table

from acc.bootstrap.callers import add_token, read_tokens
from acc.cli.output import console, print_error, print_json
from acc.domain.errors import InvalidInput

app = App(
    name="token",
    group="Connect agents",
    help="Manage the tokens of the callers of `acc serve --tokens FILE`.",
)

_SECONDS_PER_DAY = 24 * 3600.0
_File = Annotated[Path, Parameter(help="TOML file with callers and the hashes of their tokens.")]


@app.command
def add(
    file: _File,
    /,
    *,
    caller: Annotated[str, Parameter(help="Name of the caller, who owns its tasks.")],
    tenant: Annotated[str, Parameter(help="Tenant of the caller.")] = "",
    permission: Annotated[
        tuple[str, ...],
        Parameter(
            help="A permission of the caller, as agents and tools name it. [default: all]",
            negative=(),
            consume_multiple=False,
            show_default=False,
        ),
    ] = (),
    expires_days: Annotated[
        float | None,
        Parameter(help="Days until the token expires. [default: never]", show_default=False),
    ] = None,
) -> int:
    """Create a token, print it once, and add its hash to a file.

    The token itself is not stored. A running server reads the file again when it changes.
    """
    if expires_days is not None and not 0 < expires_days < 100_000:
        raise InvalidInput(f"--expires-days must be between 0 and 100000, got {expires_days:g}")
    token = add_token(
        file,
        caller=caller,
        tenant=tenant,
        permissions=frozenset(permission) if permission else None,
        expires=None if expires_days is None else time.time() + expires_days * _SECONDS_PER_DAY,
    )
    console().print(token, markup=False)
    print_error(f"added {caller} to {file}; the token is not shown again")
    return 0


@app.command(name="list")
def list_tokens(
    file: _File, /, *, json: Annotated[bool, Parameter(help="Print as JSON.", negative=())] = False
) -> int:
    """List the callers of a token file."""
    entries = read_tokens(file)
    if json:
        rows = [
            {
                "caller": entry.caller,
                "tenant": entry.tenant,
                "permissions": None if entry.permissions is None else sorted(entry.permissions),
                "expires": _format_time(entry.expires),
                "sha256": entry.sha256,
            }
            for entry in entries
        ]
        print_json(msgspec.json.format(msgspec.json.encode(rows), indent=2))
        return 0
    table = Table(header_style="bold")
    for title in ("caller", "tenant", "permissions", "expires", "sha256"):
        table.add_column(title)
    for entry in entries:
        permissions = "all" if entry.permissions is None else ", ".join(sorted(entry.permissions))
        expires = _format_time(entry.expires) or "never"
        if entry.expires is not None and entry.expires <= time.time():
            expires += " (expired)"
        cells = (entry.caller, entry.tenant, permissions, expires, entry.sha256[:12])
        table.add_row(*(escape(cell) for cell in cells))
    console().print(table)
    return 0


def _format_time(timestamp: float | None) -> str | None:
    if timestamp is None:
        return None
    return f"{datetime.fromtimestamp(timestamp, UTC):%Y-%m-%dT%H:%M:%SZ}"
