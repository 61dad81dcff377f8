"""`acc sessions`: list, show and delete the sessions of a store."""

import asyncio
import sys
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import msgspec
from cyclopts import App, Parameter
from rich.table import Table
from rich.text import Text

from acc.application.inspection.stored_sessions import SessionRecord
from acc.bootstrap.inspection import open_sessions
from acc.cli.event_view import (
    compact,
    make_console,
    one_line,
    safe_text,
    show_events,
    show_request,
)
from acc.cli.output import console, count_noun, print_error, print_json
from acc.domain.errors import InvalidInput
from acc.domain.value_objects.run import RunStatus
from acc.domain.value_objects.session import Session
from acc.ports.outbound.storage_ports import SessionList

app = App(
    name="sessions",
    group="Debug runs",
    help="""List, show and delete the sessions of a store, of all apps and users.

A password in the URL is visible to other users of the machine; set PGPASSWORD instead.
""",
)

_Store = Annotated[
    str, Parameter(help="The path of a SQLite file, or postgresql://USER@HOST/DATABASE.")
]
_User = Annotated[str, Parameter(help="User id. [default: all users]", show_default=False)]
_App = Annotated[
    str, Parameter(help="Application name in the store. [default: all]", show_default=False)
]
_AsJson = Annotated[bool, Parameter(help="Print JSON.", negative=(), show_default=False)]


@app.command(name="list")
def list_sessions(
    *,
    store: _Store,
    user: _User = "",
    app: _App = "",
    text: Annotated[
        str,
        Parameter(help="Only sessions whose ids or messages contain this.", show_default=False),
    ] = "",
    status: Annotated[
        Literal["working", "completed", "failed", "canceled", "rejected", "input_required"] | None,
        Parameter(help="Only sessions whose last run has this status."),
    ] = None,
    limit: Annotated[int, Parameter(help="Maximum number of sessions.")] = 50,
    json: _AsJson = False,
) -> int:
    """List sessions, most recently used first.

    Example: acc sessions list --store shop.db --status input_required
    """
    if limit < 1:
        raise InvalidInput(f"--limit must be at least 1, got {limit}")

    async def read() -> SessionList:
        async with open_sessions(store) as sessions:
            return await sessions.list(
                app_name=app,
                user_id=user,
                text=text,
                status=None if status is None else RunStatus(status),
                limit=limit,
            )

    found = asyncio.run(read())
    if json:
        listed = [_session_fields(one) for one in found.sessions]
        print_json(msgspec.json.encode({"sessions": listed, "total": found.total}))
        return 0
    if not found.sessions:
        print_error("no session matches")
        return 0
    table = Table(box=None, pad_edge=False)
    for title in ("session", "app", "user"):
        table.add_column(title, overflow="fold")
    table.add_column("turns", justify="right", no_wrap=True)
    table.add_column("status", no_wrap=True)
    table.add_column("last used (UTC)", no_wrap=True)
    for one in found.sessions:
        names = (one.session_id, one.key.app_name, one.key.user_id)
        table.add_row(*map(Text, names), str(one.turns), one.status.value, _time(one))
    console().print(table)
    if found.total > len(found.sessions):
        print_error(f"{found.total - len(found.sessions)} more; use --limit")
    return 0


@app.command
def show(
    session: Annotated[str, Parameter(help="The id of the session.")],
    /,
    *,
    store: _Store,
    user: _User = "",
    app: _App = "",
    json: _AsJson = False,
) -> int:
    """Show a session: status, state, files, events, and what its run waits for.

    Example: acc sessions show s1 --store shop.db
    """

    async def read() -> SessionRecord:
        async with open_sessions(store) as sessions:
            return await sessions.read(await sessions.find(session, app_name=app, user_id=user))

    record = asyncio.run(read())
    if json:
        fields = {
            **_session_fields(record.session),
            "state": dict(record.session.state),
            "files": list(record.files),
            "requests": [compact(request) for request in record.requests],
            "events": [compact(event) for event in record.events],
        }
        print_json(msgspec.json.encode(fields))
        return 0
    _print_record(record)
    return 0


@app.command
def delete(
    sessions: Annotated[tuple[str, ...], Parameter(help="The ids of the sessions.")],
    /,
    *,
    store: _Store,
    user: _User = "",
    app: _App = "",
    force: Annotated[
        bool,
        Parameter(
            help="Also delete sessions whose run waits for input.", negative=(), show_default=False
        ),
    ] = False,
) -> int:
    """Delete sessions with their events and files.

    State of the user and the app (`user:` and `app:` keys) stays. `acc store prune` deletes the
    content of large files that are stored outside the database.

    Example: acc sessions delete s1 s2 --store shop.db
    """
    if not sessions:
        raise InvalidInput("name at least one session; `acc sessions list` shows their ids")

    async def remove() -> None:
        async with open_sessions(store) as stored:
            keys = [await stored.find(one, app_name=app, user_id=user) for one in sessions]
            await stored.delete(list(dict.fromkeys(keys)), waiting=force)

    asyncio.run(remove())
    console().print(f"deleted {count_noun(len(set(sessions)), 'session')}")
    return 0


def _print_record(record: SessionRecord) -> None:
    session = record.session
    out = make_console(sys.stdout)
    facts = {
        "session": session.session_id,
        "app": session.key.app_name,
        "user": session.key.user_id,
        "turns": str(session.turns),
        "status": session.status.value,
        "last used": f"{_time(session)} UTC",
        **({"files": ", ".join(record.files)} if record.files else {}),
    }
    for name, value in facts.items():
        out.print(safe_text(f"{name:<10}", style="dim") + safe_text(value))
    for key, value in session.state.items():
        out.print(
            safe_text(f"{'state':<10}", style="dim") + safe_text(f"{key} = {one_line(value)}")
        )
    show_events(out, record.events)
    for request in record.requests:
        show_request(out, request)


def _session_fields(session: Session) -> dict[str, Any]:
    key = session.key
    return {
        "session_id": key.session_id,
        "user_id": key.user_id,
        "app_name": key.app_name,
        "turns": session.turns,
        "status": session.status.value,
        "run_id": session.run_id,
        "updated_at": session.updated_at,
    }


def _time(session: Session) -> str:
    return f"{datetime.fromtimestamp(session.updated_at, UTC):%Y-%m-%d %H:%M:%S}"
