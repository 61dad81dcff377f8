"""Construction of nodes with their services, and execution of payloads in this process."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, overload

import msgspec

from acc.application.agents.base import BaseAgent
from acc.application.contracts.idempotency import IntentOutputs
from acc.application.contracts.intents import Intents
from acc.application.contracts.local_calls import run_payload
from acc.application.contracts.node_agents import TreeNode
from acc.application.contracts.nodes import NodeServices, function_node
from acc.application.contracts.remote_intents import (
    call_remote_intent,
    contracts_on_card,
    parse_inputs,
)
from acc.application.runtime.background_loop import run_in_background
from acc.application.runtime.runner import SessionRunner
from acc.bootstrap.a2a_client import make_remote, new_id
from acc.bootstrap.agents import LazyIntentCaller, Runner, load_agent
from acc.bootstrap.schemas import LazySchemaValidator
from acc.domain.errors import InvalidInput
from acc.domain.value_objects.contract import IntentContract, contract_from_json
from acc.domain.value_objects.credentials import ClientTls
from acc.domain.value_objects.endpoint import RemoteEndpoint, loopback_allow_entries

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
    optional, is called like the `run` method of a node; the type of `inputs` may have fields, like
    a dataclass or a TypedDict, which are then the input fields. The parameters of any other
    function are its input fields. A result type with fields declares the outputs.

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


def run_agent(agent: BaseAgent | TreeNode, payload: Mapping[str, Any]) -> IntentOutputs:
    """Execute the intent of a payload in this process and return its outputs.

    The payload has `intent`, `inputs`, and optionally `memory` and `context`. It is validated
    before anything runs: InvalidInputs is a ValueError. Sessions are in memory; each call has one
    of its own unless `context.session_id` names one. A payload with the `context.request_id` of an
    earlier one returns the recorded outputs, whose `repeated` is True. The call blocks its thread,
    also one with an event loop; `run_agent_async` does not.
    """
    work = run_payload(_runner(agent), payload)
    return run_in_background(work, instead="await run_agent_async(...)")


async def run_agent_async(
    agent: BaseAgent | TreeNode | SessionRunner, payload: Mapping[str, Any]
) -> IntentOutputs:
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


class ContractSet(NamedTuple):
    """The contracts of one agent."""

    agent: str
    contracts: tuple[IntentContract, ...]


def load_contracts(
    source: str, *, token_env: str = "", allow: Sequence[str] = (), tls: ClientTls | None = None
) -> ContractSet:
    """Return the contracts of MODULE:AGENT, of the agent at a URL, or in a JSON file."""
    if "://" in source:
        endpoint = RemoteEndpoint(
            url=source,
            token=f"env:{token_env}" if token_env else "",
            allow=(*allow, *loopback_allow_entries(source)),
            tls=tls,
        )
        return asyncio.run(_fetch_contracts(endpoint))
    if source.endswith(".json"):
        return _read_contracts(Path(source))
    agent = load_agent(source)
    return ContractSet(agent.name, Intents(agent).contracts)


async def _fetch_contracts(endpoint: RemoteEndpoint) -> ContractSet:
    card = await make_remote(endpoint).card()
    return ContractSet(card.name, tuple(contracts_on_card(card).values()))


def _read_contracts(file: Path) -> ContractSet:
    try:
        data = msgspec.json.decode(file.read_bytes())
        listed = data["contracts"]
        return ContractSet(str(data["agent"]), tuple(map(contract_from_json, listed)))
    except OSError as error:
        raise InvalidInput(f"{file} cannot be read: {error.strerror}") from None
    except (msgspec.DecodeError, KeyError, TypeError, InvalidInput) as error:
        raise InvalidInput(
            f"{file} is not a file of `acc contracts show`: {error or 'unexpected content'}"
        ) from None


async def call_remote(
    endpoint: RemoteEndpoint, intent: str, pairs: Sequence[str], inputs: Mapping[str, Any]
) -> dict[str, Any]:
    """Call an intent of a remote agent with inputs of the form `name=value` and as data.

    InvalidInput if the card has no contracts: the agent would not get the name of the intent.
    """
    remote = make_remote(endpoint)
    card = await remote.card()
    contracts = contracts_on_card(card)
    if not contracts:
        raise InvalidInput(
            f"agent {card.name!r} offers no intents: its card has no contracts. Send a message "
            'without --intent: acc call URL "text", or JSON with --data'
        )
    return await call_remote_intent(
        remote,
        intent,
        {**inputs, **parse_inputs(pairs, contracts.get(intent))},
        schemas=LazySchemaValidator(),
        message_id=new_id(),
    )
