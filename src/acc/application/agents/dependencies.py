"""Check that a run gets the dependencies that its agents and tools declare."""

from collections.abc import Sequence
from typing import Any, TypeGuard, TypeVar

from acc.application.agents.base import BaseAgent
from acc.domain.errors import InvalidInput, InvalidTree

#: Who needs dependencies, and of which class.
RequiredDeps = Sequence[tuple[str, type[Any]]]


def required_deps(root: BaseAgent) -> RequiredDeps:
    """Return the classes of dependencies that agents and functions of a tree declare.

    InvalidTree if two of them exclude each other. Of types that `isinstance` does not support,
    such as protocols, only the presence of dependencies is checked.
    """
    found: dict[type[Any], str] = {}
    for agent in root.walk_all():
        declared: Any = getattr(agent, "deps_type", None)
        if _is_class(declared):
            found.setdefault(declared, f"agent {agent.name!r}")
        for tool in getattr(agent, "own_tools", {}).values():
            needed: Any = getattr(tool, "deps_type", None)
            if not _is_class(needed):
                continue
            both = _is_checkable(declared) and _is_checkable(needed)
            if both and not issubclass(declared, needed):
                raise InvalidTree(
                    f"agent {agent.name!r} has deps of type {declared.__name__}, but its tool "
                    f"{tool.name!r} needs {needed.__name__}; use the same type for both"
                )
            found.setdefault(needed, f"tool {tool.name!r}")
    return tuple((owner, needed) for needed, owner in found.items())


def check_deps(required: RequiredDeps, deps: object) -> None:
    """Raise InvalidInput if the dependencies of a run are missing or have another type."""
    for owner, needed in required:
        if deps is None or (_is_checkable(needed) and not isinstance(deps, needed)):
            given = "the run has none" if deps is None else f"got {type(deps).__name__}"
            raise InvalidInput(
                f"{owner} needs deps of type {needed.__name__}; {given}. Pass deps=... to run, "
                "stream and resume, or to Runner or create_app"
            )


def declared_types(agent_class: type[Any], base: type[Any]) -> tuple[Any, ...]:
    """Return the types with which a class derives from a generic base, or an empty tuple.

    For `class Clerk(Agent[Deps, Report])` these are Deps and Report.
    """
    for ancestor in agent_class.__mro__:
        for alias in ancestor.__dict__.get("__orig_bases__", ()):
            types = getattr(alias, "__args__", ())
            if getattr(alias, "__origin__", None) is base and not any(
                isinstance(each, TypeVar) for each in types
            ):
                return tuple(types)
    return ()


def _is_class(of: object) -> TypeGuard[type[Any]]:
    return isinstance(of, type) and of not in (object, type(None), Any)


def _is_checkable(of: object) -> bool:
    is_typed_dict = hasattr(of, "__total__")
    return _is_class(of) and not getattr(of, "_is_protocol", False) and not is_typed_dict
