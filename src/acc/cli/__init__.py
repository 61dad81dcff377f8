"""The command line: parses, calls, prints.

Exit status: 0; 1 where a gate fails, an episode or a run ends in an error, or a check finds a
problem; 2 for bad use; 3 where a run waits for a person; 4 where an evaluation has spent what it
may; 130 on Ctrl-C, for an evaluation on SIGTERM too.
"""

import sys
from collections.abc import Sequence

from cyclopts import App, CycloptsError

from acc.bootstrap.memory import version
from acc.cli import agents, call, card, chat, doctor, scenarios, serve, tokens
from acc.cli import eval as evaluate
from acc.cli.judge import app as judge_app
from acc.cli.output import print_error
from acc.domain.errors import AccError, InvalidInput, RunMismatch

app = App(
    name="acc",
    help="Evaluate agents over long conversations, and build ones whose memory stays bounded.",
    version=version,
    help_epilogue="Start with: acc eval. With an agent of your own: acc check MODULE:AGENT, then "
    "acc chat MODULE:AGENT",
)
app.command(evaluate.run, name="eval")
app.command(evaluate.report)
app.command(evaluate.compare)
app.command(scenarios.app)
app.command(judge_app)
app.command(agents.run)
app.command(chat.chat)
app.command(agents.graph)
app.command(agents.check)
app.command(serve.serve)
app.command(serve.mcp)
app.command(tokens.app)
app.command(call.call)
app.command(card.card)
app.command(doctor.doctor)
app.register_install_completion_command()

_BAD_USE = (InvalidInput, RunMismatch)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and leave with its exit status."""
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    try:
        status = app(words, exit_on_error=False, result_action="return_value")
    except CycloptsError:
        return 2
    except AccError as error:
        print_error(f"error: {error}")
        return 2 if isinstance(error, _BAD_USE) else 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        sys.stderr.close()
        return 0
    return status if isinstance(status, int) else 0
