"""`acc trace`, `acc explain` and `acc replay`: debug recorded sessions."""

import asyncio
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from datetime import UTC, datetime
from difflib import ndiff
from typing import Annotated

import msgspec
from cyclopts import Parameter
from rich.console import Console

from acc.application.inspection.explanation import StatementHistory, explain_statements
from acc.application.inspection.replay_run import TurnComparison
from acc.application.inspection.run_trace import RunTrace, TraceNode, TraceStep, trace_runs
from acc.bootstrap.agents import load_agent
from acc.bootstrap.inspection import check_store, recorded_events, replay_recorded
from acc.cli.event_view import safe_text
from acc.cli.output import console, count_noun, print_error, print_json
from acc.domain.value_objects.content import Usage
from acc.domain.value_objects.event import Event

_MAX_TEXT_LENGTH = 200
Reference = Annotated[str, Parameter(help="The id of a session, a run, or an A2A task.")]
Store = Annotated[
    str, Parameter(help="The path of a SQLite file, or postgresql://USER@HOST/DATABASE.")
]
User = Annotated[str, Parameter(help="User id. [default: all users]", show_default=False)]
App = Annotated[
    str,
    Parameter(
        help="Application name in the store; for `acc serve` the agent's. [default: all]",
        show_default=False,
    ),
]
AsJson = Annotated[bool, Parameter(help="Print JSON.", negative=(), show_default=False)]


def trace(
    reference: Reference,
    /,
    *,
    store: Store,
    user: User = "",
    app: App = "",
    requests: Annotated[
        bool,
        Parameter(
            help="Print the exact model requests, if the run recorded them (--show-prompts).",
            negative=(),
            show_default=False,
        ),
    ] = False,
    json: AsJson = False,
) -> int:
    """Show the tree of recorded runs: durations, tokens, cost, state changes and retries.

    Example: acc trace s1 --store shop.db
    """
    events = _read(store, reference, user, app)
    selected = {e.run_id for e in events if reference in (e.run_id, e.request_id)}
    # All events, because the values before a step may be from an earlier run.
    runs = trace_runs(events, requests=requests)
    if selected:
        runs = tuple(run for run in runs if run.run_id in selected)
    if json:
        print_json(msgspec.json.encode({"runs": runs}))
        return 0
    out = console()
    for run in runs:
        _print_run(out, run)
    if requests and not any(event.kind == "model_request" for event in events):
        print_error("no requests are recorded; run with --show-prompts, or record_prompts=True")
    return 0


def explain(
    session: Annotated[str, Parameter(help="The id of the session.")],
    query: Annotated[str, Parameter(help='What the statement is about: "rule about db-1".')],
    /,
    *,
    store: Store,
    user: User = "",
    app: App = "",
    turn: Annotated[
        int | None, Parameter(help="Also show whether it was in the view at this turn.")
    ] = None,
    json: AsJson = False,
) -> int:
    """Show the history of a statement of the user in the memory.

    When it was said, how it was read, when and why it was kept, replaced, rejected or dropped, and
    in which turns the model saw it. Exit status 1 if no statement matches.

    Example: acc explain s1 "rule about db-1" --store shop.db --turn 4
    """
    histories = explain_statements(_read(store, session, user, app), query)
    if json:
        print_json(msgspec.json.encode({"statements": histories}))
        return 0 if histories else 1
    if not histories:
        print_error(f"no statement of the user in session {session!r} matches {query!r}")
        return 1
    out = console()
    for history in histories:
        _print_history(out, history, turn)
    return 0


def replay(
    agent: Annotated[str, Parameter(help="MODULE:AGENT or FILE.py:AGENT.")],
    reference: Reference,
    /,
    *,
    store: Store,
    model: Annotated[
        str,
        Parameter(
            help="Call this model. [default: use the recorded responses]", show_default=False
        ),
    ] = "",
    memory: Annotated[
        str,
        Parameter(
            help="Use this memory for the agents that have one: transcript, retrieval, acc or "
            "acc:MODEL. [default: their own]",
            show_default=False,
        ),
    ] = "",
    user: User = "",
    app: App = "",
    fail_on_change: Annotated[
        bool,
        Parameter(help="Exit with status 1 if a turn differs.", negative=(), show_default=False),
    ] = False,
    json: AsJson = False,
) -> int:
    """Repeat recorded turns and show the differences turn by turn; nothing is stored.

    The recorded responses of models, tools and remote agents are used. With --model, this model is
    called instead. Tools are never called: a call that was not recorded is answered by a stub,
    which the output marks. With the id of a run, only this run is compared; the turns before it are
    repeated with their recorded answers.

    Example: acc replay shop.agents:root s1 --store shop.db --memory acc
    """
    events = _read(store, reference, user, app)
    run_ids = [e.run_id for e in events if reference in (e.run_id, e.request_id)]
    with redirect_stdout(sys.stderr):  # output of the module is not output of the command
        turns = asyncio.run(
            replay_recorded(
                events,
                load_agent(agent),
                run_id=run_ids[0] if run_ids else "",
                model=model,
                memory=memory,
            )
        )
    changed = any(turn.changed for turn in turns)
    if json:
        print_json(msgspec.json.encode({"turns": turns}))
    else:
        out = console()
        for turn in turns:
            _print_comparison(out, turn)
    return 1 if changed and fail_on_change else 0


def _print_comparison(out: Console, turn: TurnComparison) -> None:
    titles = {name: name.replace("_", " ") for name in turn.changed}
    result = f"changed: {', '.join(titles.values())}" if turn.changed else "same"
    out.print(safe_text(f"turn {turn.turn}  {_clip(turn.message)}  [{result}]", "bold"))
    before, after = turn.recorded, turn.replayed
    for name in turn.changed:
        old, new = (_lines(getattr(side, name)) for side in (before, after))
        out.print(safe_text(f"  {titles[name]}"))
        for line in ndiff(old, new):
            if line.startswith(("- ", "+ ")):
                style = "red" if line.startswith("-") else "green"
                out.print(safe_text(f"    {_clip(line)}", style))
    for call in turn.stubbed:
        out.print(safe_text(f"  no recorded result: {_clip(call)}", "yellow"))


def _lines(value: object) -> list[str]:
    if isinstance(value, tuple):
        return [str(item) for item in value]
    return ["none"] if value is None else str(value).splitlines()


def _read(store: str, reference: str, user: str, app: str) -> Sequence[Event]:
    check_store(store)
    return asyncio.run(recorded_events(store, reference, app_name=app, user_id=user))


def _print_run(out: Console, run: RunTrace) -> None:
    parts = [f"run {run.run_id}", run.status, f"{run.seconds:.3f} s", *_usage(run.usage)]
    if run.waited:
        parts.append(f"waited {run.waited:.1f} s for people")
    if run.retries:
        parts.append(f"{run.retries} retries")
    if run.error_code:
        parts.append(run.error_code)
    out.print(safe_text("  ".join(parts), "bold"))
    out.print(safe_text(f"  turn {run.turn}: {_clip(run.message)}"))
    for node in run.nodes:
        _print_node(out, node, depth=1)


def _print_node(out: Console, node: TraceNode, *, depth: int) -> None:
    indent = "  " * depth
    parts = [node.name, f"{node.seconds:.3f} s", *_usage(node.usage)]
    out.print(safe_text(f"{indent}{'  '.join(parts)}", "cyan"))
    for step in node.steps:
        _print_step(out, step, indent + "  ")
    for child in node.children:
        _print_node(out, child, depth=depth + 1)


def _print_step(out: Console, step: TraceStep, indent: str) -> None:
    marks = [*(["error"] if step.is_error else []), *(["stub"] if step.is_stub else [])]
    if step.retry:
        marks.append(f"retry {step.retry}")
    mark = f" [{', '.join(marks)}]" if marks else ""
    head = f"{indent}#{step.seq} {step.kind}{mark} +{step.seconds:.3f} s"
    out.print(safe_text(f"{head}  {_clip(step.text)}", "red" if step.is_error else ""))
    for key, value in step.state.items():
        was = f"  (before: {_clip(str(step.before[key]))})" if key in step.before else ""
        out.print(safe_text(f"{indent}  state {key} = {_clip(str(value))}{was}", "dim"))
    for key in step.removed:
        was = f"  (before: {_clip(str(step.before[key]))})" if key in step.before else ""
        out.print(safe_text(f"{indent}  state {key} removed{was}", "dim"))
    if step.request is not None:
        text = msgspec.json.format(msgspec.json.encode(step.request), indent=2).decode()
        for line in text.splitlines():
            out.print(safe_text(f"{indent}  {line}", "dim"))


def _print_history(out: Console, history: StatementHistory, turn: int | None) -> None:
    out.print(safe_text(f"“{history.text}”", "bold"))
    for entry in history.entries:
        at = datetime.fromtimestamp(entry.at, UTC).isoformat(timespec="seconds") if entry.at else ""
        owner = f" by the memory of {entry.agent}" if entry.agent else ""
        when = f" ({at})" if entry.step == "said" else ""
        out.print(safe_text(f"  turn {entry.turn}: {entry.step}{owner}{when}: {entry.reason}"))
    if not history.in_view:
        out.print(safe_text("  no memory recorded its decisions in this session", "dim"))
        return
    shown = [str(number) for number, seen in history.in_view.items() if seen]
    hidden = [str(number) for number, seen in history.in_view.items() if not seen]
    out.print(safe_text(f"  in the view at turns {', '.join(shown) or 'none'}"))
    if hidden:
        out.print(safe_text(f"  not in the view at turns {', '.join(hidden)}"))
    if turn is not None:
        seen = history.in_view.get(turn)
        answer = "no memory was used" if seen is None else "yes" if seen else "no"
        if history.entries and turn < history.entries[0].turn:
            answer = "not said yet"
        out.print(safe_text(f"  in the view at turn {turn}: {answer}"))


def _usage(usage: Usage) -> list[str]:
    parts: list[str] = []
    if usage.input_tokens or usage.output_tokens:
        parts.append(f"{usage.input_tokens}+{usage.output_tokens} tokens")
    if usage.llm_calls:
        parts.append(count_noun(usage.llm_calls, "model call"))
    if usage.cost is not None:
        parts.append(f"${usage.cost:.6f}")
    return parts


def _clip(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MAX_TEXT_LENGTH else f"{line[:_MAX_TEXT_LENGTH]}…"
