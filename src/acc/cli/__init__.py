"""The command line: parses arguments, calls use cases, prints results.

Exit status: 0 for success; 1 if a gate or check fails or a run ends in an error; 2 for invalid
usage; 3 if a run waits for input; 4 if an evaluation reached its cost limit; 130 after Ctrl-C, for
an evaluation also after SIGTERM.
"""

import sys
import warnings
from collections.abc import Sequence
from typing import TextIO

from cyclopts import (
    App,
    CycloptsError,
    CycloptsPanel,
    UnknownCommandError,
    UnknownOptionError,
    UnusedCliTokensError,
)

from acc.bootstrap.memory import version
from acc.bootstrap.settings import misspelled_variables
from acc.bootstrap.tracing import log_to_stderr
from acc.cli import contracts, judge, scenarios, sessions, store, tokens
from acc.cli import eval as eval_commands
from acc.cli.bench_memory import bench_memory
from acc.cli.call import call
from acc.cli.card import card
from acc.cli.chat import chat
from acc.cli.check import check
from acc.cli.compare import compare
from acc.cli.console import console
from acc.cli.doctor import doctor
from acc.cli.eval_extend import extend
from acc.cli.eval_plan import plan
from acc.cli.eval_proposals import confirm, propose
from acc.cli.export import export
from acc.cli.graph import graph
from acc.cli.inspect import explain, replay, trace
from acc.cli.label import label
from acc.cli.mcp import mcp
from acc.cli.output import print_error
from acc.cli.proxy import proxy
from acc.cli.run import run
from acc.cli.serve import serve
from acc.cli.subscribe import relay, subscribe
from acc.cli.worker import worker
from acc.domain.errors import AccError, EmbeddedModelWarning, InvalidInput, RunMismatch

_USAGE_ERRORS = (InvalidInput, RunMismatch)

_EVALUATE = "Evaluate agents"
_BUILD = "Build agents"
_CONNECT = "Connect agents"
_DEBUG = "Debug runs"

#: Options that other commands of agents have, and what to use instead.
_OPTION_HINTS = {
    "--model": 'the program names the model: Agent(model="openai:gpt-5.2"), or '
    'Agent(model="env:NAME") to read its name from the environment variable NAME',
    "--memory": 'the program names the memory: Agent(memory="acc")',
    "--user-id": "use --user",
    "--session-id": "use --session",
    "--message": "write the message after the agent, in quotes",
}


def _explain_usage(error: CycloptsError) -> object:
    """Return what to print for an error in the arguments of a command."""
    if isinstance(error, UnusedCliTokensError):
        unused = " ".join(error.unused_tokens or ())
        fix = f'put a text with spaces in quotes, such as "... {unused}"'
        return CycloptsPanel(f"Unexpected argument: {unused}. If it is part of a text: {fix}.")
    if isinstance(error, UnknownOptionError):
        option = (error.token.keyword or error.token.value).partition("=")[0]
        if option in _OPTION_HINTS:
            return CycloptsPanel(f"Unknown option: {option}; {_OPTION_HINTS[option]}.")
    if isinstance(error, UnknownCommandError) and "version" in (error.unused_tokens or ()):
        return CycloptsPanel("Unknown command: version; use acc --version.")
    return CycloptsPanel(error)


app = App(
    name="acc",
    help="""Evaluate, build and connect agents with a bounded memory.

Start with: acc eval. With your own agent: acc check MODULE:AGENT, then acc chat MODULE:AGENT
""",
    version=version,
    error_formatter=_explain_usage,
)
evaluate = App(name="eval", group=_EVALUATE)
evaluate.default(eval_commands.run)
evaluate.command(plan)
evaluate.command(extend)
evaluate.command(propose)
evaluate.command(confirm)
app.command(evaluate)
app.command(eval_commands.report, group=_EVALUATE)
app.command(compare, group=_EVALUATE)
app.command(export, group=_EVALUATE)
app.command(label, group=_EVALUATE)
app.command(bench_memory, group=_EVALUATE)
app.command(scenarios.app)
app.command(judge.app)
app.command(run, group=_BUILD)
app.command(chat, group=_BUILD)
app.command(console, group=_BUILD)
app.command(graph, group=_BUILD)
app.command(check, group=_BUILD)
app.command(sessions.app)
app.command(store.app)
app.command(trace, group=_DEBUG)
app.command(explain, group=_DEBUG)
app.command(replay, group=_DEBUG)
app.command(serve, group=_CONNECT)
app.command(subscribe, group=_CONNECT)
app.command(relay, group=_CONNECT)
app.command(proxy, group=_CONNECT)
app.command(mcp, group=_CONNECT)
app.command(worker, group=_CONNECT)
app.command(tokens.app)
app.command(call, group=_CONNECT)
app.command(card, group=_CONNECT)
app.command(contracts.app)
app.command(doctor, group=_CONNECT)
app.register_install_completion_command()


def main(arguments: Sequence[str] | None = None) -> None:
    """Execute a command and exit with its status."""
    sys.exit(execute(arguments))


def execute(arguments: Sequence[str] | None = None) -> int:
    """Execute a command and return its exit status."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    try:
        with warnings.catch_warnings(), log_to_stderr():
            warnings.showwarning = _show_warning
            for problem in misspelled_variables():
                print_error(f"warning: {problem}")
            status = app(words, exit_on_error=False, result_action="return_value")
    except CycloptsError:
        return 2
    except AccError as error:
        print_error(f"error: {error}")
        return 2 if isinstance(error, _USAGE_ERRORS) else 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        sys.stderr.close()
        return 0
    return status if isinstance(status, int) else 0


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print a warning; where it was raised is shown unless it is one of ours."""
    place = "" if issubclass(category, EmbeddedModelWarning) else f"{filename}:{lineno}: "
    print_error(f"{place}warning: {message}")
