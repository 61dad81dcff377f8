"""`acc check`: check an agent tree against design rules."""

import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import Parameter
from rich.console import Console
from rich.padding import Padding

from acc.application.lint.structure_rules import Severity
from acc.application.use_cases.check_agents import TreeReport, check_agents
from acc.bootstrap.a2a import check_card_file
from acc.bootstrap.agents import load_agent
from acc.cli.event_view import make_console, safe_text
from acc.cli.output import count_noun, print_json
from acc.cli.session_options import AgentReference

_INDENT = 18
_STYLES = {
    Severity.OK: "green",
    Severity.WARNING: "yellow",
    Severity.PROBLEM: "bold red",
    Severity.NOT_APPLICABLE: "dim",
}


def check(
    agent: AgentReference,
    /,
    *,
    card: Annotated[
        Path | None,
        Parameter(help="The file of `acc serve --card`, which is checked too."),
    ] = None,
    json: Annotated[
        bool, Parameter(help="Print the report as JSON.", negative=(), show_default=False)
    ] = False,
) -> int:
    """Check an agent tree against twelve rules of multi-agent design, without running it.

    The rules: single responsibility, clear descriptions, bounded loops, isolated branches,
    consistent state keys, matching schemas, precise contracts, transfers that end, approval of
    high-privilege actions, labelled tools, existing memories, and a valid agent card. Exits with 1
    if there is a problem; warnings do not change the status.

    Example: acc check shop.agents:root
    """
    with redirect_stdout(sys.stderr):
        root = load_agent(agent)
        report = check_agents(root, None if card is None else check_card_file(root, card))
    if json:
        data = {"severity": report.severity, **msgspec.to_builtins(report)}
        print_json(msgspec.json.format(msgspec.json.encode(data), indent=2))
    else:
        _show_report(make_console(sys.stdout), report)
    return 1 if report.severity is Severity.PROBLEM else 0


def _show_report(output: Console, report: TreeReport) -> None:
    agents = count_noun(report.agents, "agent")
    output.print(safe_text(report.agent, "bold") + safe_text(f", {agents}\n", "dim"))
    for number, rule in enumerate(report.rules, start=1):
        output.print(
            safe_text(f"{rule.severity.value:<15}", _STYLES[rule.severity])
            + safe_text(f"{number}. {rule.title}", "bold" if rule.findings else "")
        )
        output.print(safe_text(f"{'':<{_INDENT}}{rule.title_ja}", "dim"))
        if rule.note and not rule.findings:
            _show_paragraph(output, rule.note, style="dim")
        for finding in rule.findings:
            names = ", ".join(finding.agents)
            prefix = f"{names}: " if names else ""
            _show_paragraph(output, f"{prefix}{finding.text}", style=_STYLES[finding.severity])
            _show_paragraph(output, f"fix: {finding.fix}", style="")
    problems = count_noun(report.count(Severity.PROBLEM), "problem")
    warnings = count_noun(report.count(Severity.WARNING), "warning")
    output.print(safe_text(f"\n{problems}, {warnings}", _STYLES[report.severity]))


def _show_paragraph(output: Console, text: str, *, style: str) -> None:
    """Print indented text, wrapped only on a terminal."""
    if output.is_terminal and output.width > 2 * _INDENT:
        output.print(Padding(safe_text(text, style), (0, 0, 0, _INDENT)), soft_wrap=False)
    else:
        output.print(safe_text(f"{'':<{_INDENT}}{text}", style))
