"""Trees of agents for the command line: loaded by name, checked and drawn."""

import sys
from pathlib import Path

from acc.application.agents.base import BaseAgent
from acc.bootstrap.agents import load_agent
from acc.domain.errors import AccError, InvalidInput, InvalidTree

FORMATS = ("mermaid", "svg")


def load_tree(reference: str) -> BaseAgent:
    """Return the agent that `MODULE:AGENT` or `FILE.py:AGENT` names.

    Whatever goes wrong in the module is told in one line, with its place.
    """
    module, colon, name = reference.rpartition(":")
    if not colon or not module or not name:
        raise InvalidInput(
            f"{reference!r} names no agent: write MODULE:AGENT, as in shop.agents:root, or "
            "FILE.py:AGENT"
        )
    if module.endswith(".py"):
        module = _importable(Path(module))
    try:
        agent = load_agent(f"{module}:{name}")
    except InvalidTree as error:
        raise InvalidTree(f"{reference} cannot be built: {error}") from error
    except AccError as error:
        raise InvalidInput(f"{error}{_agents_in(module)}") from error
    except Exception as error:
        from acc.adapters.evaluation.python_agents import with_place

        raise InvalidInput(f"cannot load {reference}: {with_place(error)}") from error
    return agent


def _importable(path: Path) -> str:
    if not path.is_file():
        raise InvalidInput(f"there is no file {path}")
    folder = str(path.parent.resolve())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    return path.stem


def _agents_in(module: str) -> str:
    loaded = sys.modules.get(module)
    found = [n for n, v in vars(loaded).items() if isinstance(v, BaseAgent)] if loaded else []
    return f"; the agents in it are {', '.join(found)}" if found else ""


def draw_tree(agent: BaseAgent, form: str) -> str:
    """Return a drawing of a tree as Mermaid text or as SVG."""
    if form == "svg":
        from acc.adapters.diagrams.svg import svg

        return svg(agent)
    from acc.adapters.diagrams.graph import mermaid

    return mermaid(agent)
