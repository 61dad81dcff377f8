"""`acc graph`: draw an agent tree."""

import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from acc.bootstrap.agents import GraphFormat, draw_graph, load_agent
from acc.cli.output import console
from acc.cli.session_options import AgentReference
from acc.domain.errors import InvalidInput, StorageFailed

#: File name extensions of image formats that are not supported.
_UNSUPPORTED = frozenset(
    (".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp", ".tiff", ".pdf", ".ps", ".eps", ".dot")
)


def graph(
    agent: AgentReference,
    /,
    *,
    format: Annotated[
        GraphFormat | None,
        Parameter(
            help="Output format. [default: svg if --out ends in .svg, else mermaid]",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None, Parameter(help="File to write. [default: stdout]", show_default=False)
    ] = None,
) -> int:
    """Draw an agent tree with models, tools, confirmations, loops, edges and transfers.

    Mermaid text can be embedded in Markdown. An SVG adapts to light and dark mode.

    Example: acc graph shop.agents:root --out tree.svg
    """
    graph_format = format or _format_of(out)
    with redirect_stdout(sys.stderr):
        drawing = draw_graph(load_agent(agent), graph_format)
    if out is None:
        sys.stdout.write(drawing)
        return 0
    try:
        out.write_text(drawing, encoding="utf-8")
    except OSError as error:
        raise StorageFailed(f"cannot write {out}: {error.strerror}") from error
    console().print(f"wrote {out}", markup=False)
    return 0


def _format_of(out: Path | None) -> GraphFormat:
    """Return the format for a file name."""
    extension = "" if out is None else out.suffix.lower()
    if extension == ".svg":
        return "svg"
    if extension in _UNSUPPORTED:
        raise InvalidInput(
            f"format {extension} is not supported: use .svg, .mmd for Mermaid text, or --format"
        )
    return "mermaid"
