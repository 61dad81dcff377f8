"""Construction of nodes with their services, and execution of payloads in this process."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, overload

from acc.application.agents.base import BaseAgent
from acc.application.contracts.node_agents import TreeNode
from acc.application.contracts.nodes import NodeServices, function_node
from acc.application.contracts.payloads import run_payload
from acc.application.runtime.background_loop import run_in_background
from acc.application.runtime.runner import SessionRunner
from acc.bootstrap.agents import LazyIntentCaller, LazySchemaValidator, Runner

_SERVICES = NodeServices(schemas=LazySchemaValidator(), caller=LazyIntentCaller())
_MAX_RUNNERS = 64


class ToolNode(TreeNode):
    """A node whose `schema_class` declares its contract.

    Subclasses define `run(self, inputs, memory, context)` and return a dict. Inputs are validated
    before `run` executes, and outputs afterwards.
    """

    services = _SERVICES


class FunctionNode(TreeNode):
    """A node whose contract may be declared with `schema_class`.

    Without it, the intent is named after the class: `SummaryRouterNode` is `summary_router`. Every
    object is accepted as inputs, and reading a missing field is an error of the caller.
    """

    services = _SERVICES


@overload
def intent(function: Callable[..., Any], /) -> FunctionNode: ...


@overload
def intent(
    function: None = None,
    /,
    *,
    name: str = "",
    description: str = "",
    inputs: Any = None,
    outputs: Any = None,
    reads: Sequence[str] = ("*",),
    writes: Sequence[str] = ("*",),
    context: Sequence[str] = (),
    permissions: Sequence[str] = (),
    idempotent: bool = False,
) -> Callable[[Callable[..., Any]], FunctionNode]: ...


def intent(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str = "",
    description: str = "",
    inputs: Any = None,
    outputs: Any = None,
    reads: Sequence[str] = ("*",),
    writes: Sequence[str] = ("*",),
    context: Sequence[str] = (),
    permissions: Sequence[str] = (),
    idempotent: bool = False,
) -> FunctionNode | Callable[[Callable[..., Any]], FunctionNode]:
    """Make a function a node: `@intent`, or `@intent(idempotent=True)` with options.

    A function with the parameters `inputs`, `memory` and `context`, of which the last two are
    optional, is called like the `run` method of a node. The parameters of any other function are
    its input fields, and its result type declares the outputs.

    Args:
        function: The function.
        name: Name of the intent; default: that of the function.
        description: What the intent does; default: the docstring.
        inputs: Declared inputs: names with `Field`, a JSON schema, or a type with fields.
        outputs: Declared outputs, in the same forms.
        reads: Patterns of the memory keys that the function reads.
        writes: Patterns of the memory keys that the function writes.
        context: Keys of the request context that the function gets; none means all.
        permissions: Permissions that a caller needs.
        idempotent: Whether a call may be repeated.
    """

    def decorate(target: Callable[..., Any]) -> FunctionNode:
        return function_node(
            FunctionNode,
            target,
            name=name,
            description=description,
            inputs=inputs,
            outputs=outputs,
            reads=reads,
            writes=writes,
            context=context,
            permissions=permissions,
            idempotent=idempotent,
        )

    return decorate if function is None else decorate(function)


def run_agent(agent: BaseAgent | TreeNode, payload: Mapping[str, Any]) -> dict[str, Any]:
    """Execute the intent of a payload in this process and return its outputs.

    The payload has `intent`, `inputs`, and optionally `memory` and `context`. It is validated
    before anything runs: InvalidInputs is a ValueError. Sessions are in memory; each call has one
    of its own unless `context.session_id` names one. The call blocks its thread, also one with an
    event loop; `run_agent_async` does not.
    """
    work = run_payload(_runner(agent), payload)
    return run_in_background(work, instead="await run_agent_async(...)")


async def run_agent_async(
    agent: BaseAgent | TreeNode | SessionRunner, payload: Mapping[str, Any]
) -> dict[str, Any]:
    """Execute the intent of a payload like `run_agent`, in the running event loop.

    Pass a `Runner` in place of the agent for another store than memory.
    """
    if not isinstance(agent, SessionRunner):
        agent = _runner(agent, asyncio.get_running_loop())
    return await run_payload(agent, payload)


@lru_cache(maxsize=_MAX_RUNNERS)
def _runner(
    agent: BaseAgent | TreeNode, loop: asyncio.AbstractEventLoop | None = None
) -> SessionRunner:
    """Return the runner of an agent; connections of its models belong to one event loop."""
    return Runner(agent.as_agent() if isinstance(agent, TreeNode) else agent)
