"""`acc token`: who may call a server."""

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import App, Parameter
from rich.markup import escape
from rich.table import Table

from acc.adapters.auth.tokens import TokenEntry, append_entry, new_token, read_entries, token_hash
from acc.cli.output import console, print_error, print_json
from acc.domain.errors import InvalidInput

app = App(
    name="token",
    group="Connect agents",
    help="Make the tokens that callers of `acc serve --tokens FILE` send.",
)

_DAY = 24 * 3600.0
_File = Annotated[Path, Parameter(help="The file of callers and the hashes of their tokens.")]


@app.command
def add(
    file: _File,
    /,
    *,
    caller: Annotated[str, Parameter(help="Whose token it is; tasks belong to their caller.")],
    tenant: Annotated[str, Parameter(help="The tenant that the caller belongs to.")] = "",
    permission: Annotated[
        tuple[str, ...],
        Parameter(
            help="What the caller may do, as agents and tools name it; all of it if none is given.",
            negative=(),
            consume_multiple=False,
        ),
    ] = (),
    expires_days: Annotated[
        float | None, Parameter(help="After how many days the token is no longer good.")
    ] = None,
) -> int:
    """Print a new token, once, and add its hash to a file.

    The token itself is kept nowhere: give it to its caller now. A server that is running reads the
    file when it is started again.
    """
    if expires_days is not None and not 0 < expires_days < 100_000:
        raise InvalidInput(f"--expires-days must be above 0 and below 100000, not {expires_days:g}")
    token = new_token()
    entry = TokenEntry(
        sha256=token_hash(token),
        caller=caller,
        tenant=tenant,
        permissions=frozenset(permission) if permission else None,
        expires=None if expires_days is None else time.time() + expires_days * _DAY,
    )
    append_entry(file, entry)
    console().print(token, markup=False)
    print_error(f"added {caller} to {file}; this token is shown only now")
    return 0


@app.command(name="list")
def list_tokens(
    file: _File, /, *, json: Annotated[bool, Parameter(help="Print as JSON.", negative=())] = False
) -> int:
    """List whose tokens a file holds."""
    entries = read_entries(file)
    if json:
        rows = [
            {
                "caller": entry.caller,
                "tenant": entry.tenant,
                "permissions": None if entry.permissions is None else sorted(entry.permissions),
                "expires": _moment(entry.expires),
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
        expires = _moment(entry.expires) or "never"
        if entry.expires is not None and entry.expires <= time.time():
            expires += " (expired)"
        cells = (entry.caller, entry.tenant, permissions, expires, entry.sha256[:12])
        table.add_row(*(escape(cell) for cell in cells))
    console().print(table)
    return 0


def _moment(at: float | None) -> str | None:
    return None if at is None else f"{datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%M:%SZ}"
