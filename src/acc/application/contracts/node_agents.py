"""Nodes as agents of a tree and as tools of a model."""

import asyncio
import inspect
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, ClassVar

import msgspec

from acc.application.agents.base import BaseAgent, Confirm
from acc.application.contracts.nodes import IntentNode, NodeCall, current_call
from acc.application.runtime.caller_rules import claimed_caller
from acc.application.runtime.context import RunContext
from acc.application.runtime.state import StateView
from acc.application.tools.tool import BaseTool, ToolContext
from acc.application.tracing.spans import outgoing_parent
from acc.domain.errors import AccError, AgentFailed, PermissionDenied
from acc.domain.value_objects.base import JsonData
from acc.domain.value_objects.content import Part
from acc.domain.value_objects.contract import INTENTS_EXTENSION, IntentContract
from acc.domain.value_objects.flow import ToolLabels

_JSON = "application/json"
#: The claims of a request that are replaced by what is known about it.
_DEBUG = "debug_mode"
#: Claims about one call, which must not be passed on to another one.
_CALL_CLAIMS = ("idempotency_key", "nonce")


@dataclass(kw_only=True, eq=False)
class NodeAgent(BaseAgent[Any, dict[str, Any]]):
    """A node as an agent. Its answer is the outputs as JSON.

    Its inputs are taken from the outputs of earlier agents of the run, from the data of the
    message, and from the session state, by field name. A text message is the value of the only
    required field that is then missing. `output_key` names a state key for the outputs.
    """

    node: IntentNode
    output_key: str = ""

    input_modes: ClassVar[tuple[str, ...]] = (_JSON, "text/plain")
    output_modes: ClassVar[tuple[str, ...]] = (_JSON, "text/plain")
    runs_in_debug: ClassVar[bool] = True

    @property
    def contract(self) -> IntentContract:
        """Return the contract of the node."""
        return self.node.contract

    async def run(self, ctx: RunContext) -> dict[str, Any]:
        """Execute the node; a resumed run uses the recorded outputs."""
        recorded = ctx.next_recorded()
        if recorded is not None:
            return dict(_json_object(recorded.text))
        inputs = gather_inputs(ctx, self.contract)
        outputs = await execute_node(self.node, ctx, inputs)
        if self.output_key:
            ctx.state[self.output_key] = outputs
        return outputs

    def decode_output(self, text: str) -> object:
        """Return the outputs in an answer."""
        return dict(_json_object(text))

    def read_output(self, ctx: RunContext) -> JsonData:
        """Return the state value that holds the outputs."""
        return ctx.state.get(self.output_key) if self.output_key else None


class NodeTool(BaseTool):
    """A node as a tool of a model."""

    def __init__(
        self,
        node: IntentNode,
        *,
        confirm: Confirm = False,
        timeout: float | None = None,
        labels: ToolLabels | None = None,
    ) -> None:
        contract = node.contract
        super().__init__(
            name=node.agent_name,
            description=contract.description,
            parameters={"properties": {}, **contract.input_schema},
            confirm=confirm,
            timeout=timeout,
            idempotent=contract.idempotent,
            labels=labels,
        )
        self._node = node

    def validate(self, arguments: Mapping[str, JsonData]) -> dict[str, JsonData]:
        """Return the inputs with their defaults, or raise InvalidInputs."""
        return dict(self._node.accept_inputs(arguments))

    async def invoke(self, arguments: Mapping[str, JsonData], ctx: ToolContext) -> object:
        """Execute the node with the state of the agent."""
        return await execute_node(self._node, ctx.run_context, arguments)


class TreeNode(IntentNode):
    """A node that can be an entry of `sub_agents`, of `tools` and of `intents`."""

    def as_agent(self, *, name: str = "", output_key: str = "") -> NodeAgent:
        """Return the node as an agent; `output_key` names a state key for its outputs."""
        return NodeAgent(
            name=name or self.agent_name,
            description=self.contract.description,
            node=self,
            output_key=output_key,
        )

    def as_tool(
        self,
        *,
        confirm: Confirm = False,
        timeout: float | None = None,
        labels: ToolLabels | None = None,
    ) -> NodeTool:
        """Return the node as a tool of a model; `labels` are for the information-flow policy."""
        return NodeTool(self, confirm=confirm, timeout=timeout, labels=labels)


def gather_inputs(ctx: RunContext, contract: IntentContract) -> dict[str, Any]:
    """Return the inputs of a node from the run; they are not validated yet."""
    message: dict[str, Any] = {}
    for part in ctx.parts:
        if isinstance(part.data, Mapping):
            message |= part.data
            if _calls(part, contract):  # the inputs were validated; the state must not add any
                return message
    outputs: dict[str, Any] = {}
    for earlier in ctx.current_branch.thread:
        outputs |= _json_object(earlier.text)
    fields = contract.input_fields
    if not fields:
        return {**message, **outputs} or ({"text": ctx.message} if ctx.message else {})
    inputs: dict[str, Any] = {}
    for name in fields:
        for source in (outputs, message, ctx.state):
            if name in source:
                inputs[name] = source[name]
                break
    # A misspelled field of the message must not be ignored.
    inputs |= {name: value for name, value in message.items() if name not in fields}
    text = ctx.current_branch.thread[-1].text if ctx.current_branch.thread else ctx.message
    name = _text_field(contract, inputs)
    if name and text:
        inputs[name] = text
    return inputs


def missing_inputs(
    contract: IntentContract, available: Collection[str], text: str
) -> tuple[str, ...]:
    """Return the required inputs that neither the available values nor a text message provide."""
    if text and _text_field(contract, available):
        return ()
    return _missing(contract, available)


def _missing(contract: IntentContract, available: Collection[str]) -> tuple[str, ...]:
    return tuple(name for name in contract.required_inputs if name not in available)


def _text_field(contract: IntentContract, available: Collection[str]) -> str:
    """Return the only required field that is missing if it can be a text, or an empty string."""
    missing = _missing(contract, available)
    if len(missing) == 1 and _accepts_text(contract.input_fields[missing[0]]):
        return missing[0]
    return ""


def _calls(part: Part, contract: IntentContract) -> bool:
    """Return True if a part has the inputs of a call of this intent."""
    entry = part.metadata.get(INTENTS_EXTENSION) if part.metadata else None
    return isinstance(entry, Mapping) and entry.get("skill") == contract.name


async def execute_node(
    node: IntentNode, ctx: RunContext, inputs: Mapping[str, Any]
) -> dict[str, Any]:
    """Execute a node in a run: in a thread unless it is async, with the state it may use."""
    contract = node.contract
    check_permissions(ctx, contract)
    context = node_context(ctx, contract)
    memory = StateView(ctx.state, contract.reads, contract.writes)
    call = NodeCall(
        loop=asyncio.get_running_loop(),
        caller=ctx.services.intents or node.services.caller,
        identity=f"agent://{ctx.run.request.root.name}",
        context=context,
        permissions=None if ctx.call.permissions is None else frozenset(ctx.call.permissions),
        trace_parent=outgoing_parent(ctx),
        flow=ctx.run.flow,
    )
    token = current_call.set(call)
    try:
        if inspect.iscoroutinefunction(inspect.unwrap(node.run)):
            outputs = await node.run(dict(inputs), memory, context)
        else:
            outputs = await ctx.services.threads.call(node.run, dict(inputs), memory, context)
            if inspect.isawaitable(outputs):
                outputs = await outputs
    except AccError:
        raise
    except Exception as error:
        raise AgentFailed(node.agent_name, f"{type(error).__name__}: {error}") from error
    finally:
        current_call.reset(token)
        memory.close()
    return dict(outputs)


def check_permissions(ctx: RunContext, contract: IntentContract) -> None:
    """Raise PermissionDenied if the caller lacks a permission of a contract."""
    for permission in contract.permissions:
        if not ctx.call.allows(permission):
            raise PermissionDenied(
                f"intent {contract.name!r} requires the permission {permission!r}; add it to the "
                "permissions of the call"
            )


def node_context(ctx: RunContext, contract: IntentContract) -> dict[str, Any]:
    """Return the request context for a node, limited to the keys of its contract."""
    call, claims = ctx.call, dict(ctx.call.claims)
    claims.pop(_DEBUG, None)
    now = datetime.fromtimestamp(ctx.services.clock.now(), UTC)
    context: dict[str, Any] = {
        "timestamp": now.isoformat(timespec="seconds").replace("+00:00", "Z"),
        "user_id": ctx.user_id,
        **claims,
        "caller": claimed_caller(call),
        "request_id": call.request_id,
        "trace_id": call.trace_id,
    }
    if call.caller != ctx.run.request.call.caller:  # a parent agent calls with a grant
        context["caller"] = call.caller
    if call.permissions is None:
        context.pop("permissions", None)
    else:
        context["permissions"] = sorted(call.permissions)
    for claim in _CALL_CLAIMS:
        context.pop(claim, None)
    if not ctx.identity:
        context.pop("user_id", None)
    if ctx.config.debug:
        context[_DEBUG] = True
    if contract.context:
        context = {key: value for key, value in context.items() if key in contract.context}
    return context


def _json_object(text: str) -> Mapping[str, Any]:
    if not text.startswith("{"):
        return {}
    try:
        data = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}


def _accepts_text(schema: Mapping[str, Any]) -> bool:
    return bool(schema.get("type", "string") == "string")
