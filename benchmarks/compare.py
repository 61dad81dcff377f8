"""Our numbers beside the peers', with stub models that answer at once. `make bench-peers` runs it.

Every contender runs in processes of its own that take turns with the others', round after round.
CPU time; a figure is the median over the rounds, a ratio the median of the rounds' ratios to acc.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PEERS_PYTHON = HERE.parent / ".venv-peers" / "bin" / "python"
OURS = "acc"
# Last on the path, so that no file of ours hides a package of a peer's.
START = f"import sys; sys.path.append({str(HERE)!r}); from peers.measure import main; main()"
LIMIT = 900

#: Name in the table, and the arguments of `peers.measure`.
TURNS = {
    OURS: "acc turns",
    "agent-framework-core": "agent_framework_core turns",
    "the same, functional workflows": "agent_framework_functional turns",
    "langgraph": "langgraph turns",
    "openai-agents": "openai_agents turns",
    "pydantic-ai-slim": "pydantic_ai_slim turns",
    "google-adk": "google_adk turns",
}
SESSIONS = {
    OURS: "acc session session",
    "acc, whole transcript": "acc session session_whole",
    "acc, ACC memory": "acc session session_compressed",
    "agent-framework-core": "agent_framework_core session session",
    "langgraph": "langgraph session session",
    "openai-agents": "openai_agents session session",
    "pydantic-ai-slim": "pydantic_ai_slim session session",
    "google-adk": "google_adk session session",
}
TURN_COLUMNS = {
    "import": "import, s",
    "first_answer": "until the first answer, s",
    "second_answer": "until the second, s",
    "one_turn": "one turn",
    "tool_turn": "with a tool call",
    "sequential": "sequential 3",
    "parallel": "parallel 3",
    "loop": "loop 5",
}
SESSION_COLUMNS = {
    "turn_10": "turn 10",
    "turn_100": "turn 100",
    "turn_250": "turn 250",
    "turn_500": "turn 500",
    "grown": "grown from turn 10 to 500, MB",
    "resident": "process at the end, MB",
}
#: Shown without a ratio.
PLAIN = {"grown", "resident"}

#: Tracing and telemetry off, as each peer's documentation says.
QUIET = {
    "OPENAI_AGENTS_DISABLE_TRACING": "1",
    "LANGSMITH_TRACING": "false",
    "ENABLE_INSTRUMENTATION": "false",
    "AGENT_FRAMEWORK_USER_AGENT_DISABLED": "true",
    "ADK_CAPTURE_MESSAGE_CONTENT_IN_SPANS": "false",
    "OTEL_SDK_DISABLED": "true",
}


@dataclass
class Contender:
    """What was found about one contender: values by column, one a round, or why not."""

    name: str
    version: str = ""
    rounds: list[dict[str, float]] = field(default_factory=list)
    reasons: dict[str, str] = field(default_factory=dict)

    def add(self, answer: dict[str, Any]) -> None:
        """Add the output of one process."""
        self.version = answer.get("version", self.version)
        values: dict[str, float] = {}
        for column, value in answer["found"].items():
            if isinstance(value, float):
                values[column] = value
            else:
                self.reasons[column] = value["error"] if isinstance(value, dict) else value
        self.rounds.append(values)

    def figure(self, column: str) -> float | None:
        """Return the median over the rounds."""
        values = [found[column] for found in self.rounds if column in found]
        return statistics.median(values) if values and column not in self.reasons else None

    def ratio(self, column: str, ours: "Contender") -> float | None:
        """Return the median of the rounds' ratios to ours."""
        pairs = zip(self.rounds, ours.rounds, strict=True)
        ratios = [a[column] / b[column] for a, b in pairs if column in a and column in b]
        return statistics.median(ratios) if ratios and column not in self.reasons else None


def measure(arguments: str) -> dict[str, Any]:
    """Run one process and return what it printed, or why it could not."""
    python = sys.executable if arguments.startswith("acc ") else str(PEERS_PYTHON)
    # Bytecode must be cached, or an import measures the compiler.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"} | QUIET
    try:
        done = subprocess.run(  # noqa: S603 - interpreters and modules of our own
            [python, "-P", "-c", START, *arguments.split()],
            env=environment,
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=True,
        )
    except OSError:
        return {"found": {"error": "its environment is not set up, see `make bench-peers`"}}
    except subprocess.TimeoutExpired:
        return {"found": {"error": f"took over {LIMIT} s"}}
    except subprocess.CalledProcessError as error:
        lines = error.stderr.strip().splitlines() or [f"ended with {error.returncode}"]
        return {"found": {"error": lines[-1]}}
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def contest(what: str, plan: dict[str, str], rounds: int) -> list[Contender]:
    """Measure all in turns; a first round warms the disk and the bytecode and does not count."""
    found = {name: Contender(name) for name in plan}
    for number in range(rounds + 1):
        for name, arguments in plan.items():
            print(f"{what}, round {number} of {rounds}: {name}", file=sys.stderr, flush=True)
            if number == 0:
                measure(arguments)
            elif "error" not in found[name].reasons:
                found[name].add(measure(arguments))
            else:
                found[name].rounds.append({})
    return list(found.values())


def table(contenders: list[Contender], columns: dict[str, str], *, markdown: bool) -> str:
    """Return figures, with ratios to ours in brackets."""
    ours = contenders[0]
    rows = [["", *columns.values()]]
    for contender in contenders:
        row = [f"{contender.name} {contender.version}".strip()]
        row += [cell(contender, column, ours) for column in columns]
        rows.append(row)
    if markdown:
        rows.insert(1, ["---"] * len(rows[0]))
        return "\n".join(f"| {' | '.join(row)} |" for row in rows)
    widths = [max(len(row[number]) for row in rows) for number in range(len(rows[0]))]
    return "\n".join(
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True))
        for row in rows
    )


def cell(contender: Contender, column: str, ours: Contender) -> str:
    """Return a figure and how many times ours it is."""
    figure, ratio = contender.figure(column), contender.ratio(column, ours)
    if figure is None:
        return "not measured"
    if column in PLAIN:
        return f"{figure:.0f}"
    if contender is ours or ratio is None:
        return significant(figure)
    return f"{significant(figure)} ({significant(ratio)}x)"


def significant(value: float) -> str:
    """Return a number with two digits that count, or all that stand before the point."""
    return f"{value:.0f}" if value >= 10 else f"{value:#.2g}"


def reasons(contenders: list[Contender]) -> list[str]:
    """Return what was not measured, and why."""
    return [
        f"not measured: {contender.name}{'' if column == 'error' else f', {column}'}: {reason}"
        for contender in contenders
        for column, reason in contender.reasons.items()
    ]


def as_json(contenders: list[Contender], columns: dict[str, str]) -> dict[str, Any]:
    """Return everything that was found."""
    ours = contenders[0]
    return {
        contender.name: {
            "version": contender.version,
            "figures": {column: contender.figure(column) for column in columns},
            "ratios": {column: contender.ratio(column, ours) for column in columns},
            "rounds": contender.rounds,
            "not_measured": contender.reasons,
        }
        for contender in contenders
    }


def main() -> int:
    """Measure and print; only acc itself failing is a failure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=("turns", "session"), help="one of the two tables")
    parser.add_argument("--markdown", action="store_true", help="print the tables as Markdown")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything found")
    options = parser.parse_args()
    plans = {"turns": (TURNS, TURN_COLUMNS), "session": (SESSIONS, SESSION_COLUMNS)}
    report: dict[str, Any] = {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "rounds": options.rounds,
    }
    missing: list[str] = []
    for what, (plan, columns) in plans.items():
        if options.only not in (None, what):
            continue
        found = contest(what, plan, options.rounds)
        print(f"{table(found, columns, markdown=options.markdown)}\n")
        missing += reasons(found)
        report[what] = as_json(found, columns)
    print("\n".join(missing or ["everything was measured"]))
    print(
        f"{report['date']}, Python {report['python']}, {report['cores']} cores, "
        f"{options.rounds} rounds"
    )
    if options.json:
        options.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    return 1 if any(reason.startswith(f"not measured: {OURS}") for reason in missing) else 0


if __name__ == "__main__":
    sys.exit(main())
