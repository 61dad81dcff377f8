"""Nodes: units of work with a contract, used alone, in agent trees, as tools and as intents."""

import asyncio
import inspect
import logging
import re
import typing
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, ClassVar, TypeVar, cast
from uuid import uuid4

import msgspec

from acc.application.contracts.schemas import (
    ToolSchema,
    check_fields,
    check_type,
    contract_of_function,
    convert_inputs,
    description_of,
    has_result_field,
    is_type_with_fields,
    object_schema,
    type_of_inputs,
    type_of_parameters,
    with_defaults,
)
from acc.application.runtime.background_loop import run_in_background
from acc.application.runtime.json_types import to_builtins
from acc.domain.contract_errors import InvalidInputs, InvalidOutputs, MissingInput
from acc.domain.errors import InvalidInput, InvalidTree
from acc.domain.flow import FlowLedger
from acc.domain.value_objects.contract import IntentContract
from acc.domain.value_objects.flow import UNTRUSTED_METADATA
from acc.ports.outbound.remote_ports import IntentCallerPort
from acc.ports.outbound.system_ports import SchemaValidatorPort

_LOG = logging.getLogger("acc.run.node")
_PARAMETERS = ("inputs", "memory", "context")
_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_RECORD_FIELDS = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeServices:
    """What nodes use: validation with JSON schemas, and calls of other agents."""

    schemas: SchemaValidatorPort
    caller: IntentCallerPort


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCall:
    """The run in which a node is executed.

    `identity` is the name of the calling agent on the next hop, `context` the received context as
    far as the contract names it. Calls of other agents have at most `permissions`; None is all.
    They belong to the trace of `trace_parent`, if there is one. `flow` is what the run has read.
    """

    loop: asyncio.AbstractEventLoop
    caller: IntentCallerPort
    identity: str
    context: Mapping[str, Any]
    permissions: frozenset[str] | None = None
    trace_parent: str = ""
    flow: FlowLedger | None = None


#: The run that executes a node in this thread or task; None if a node is called directly.
current_call: ContextVar[NodeCall | None] = ContextVar("current_call", default=None)


class NodeLogger(logging.LoggerAdapter[logging.Logger]):
    """A logger whose messages may be mappings, which become fields of the record."""

    def process(
        self, msg: Any, kwargs: MutableMapping[str, Any]
    ) -> tuple[Any, MutableMapping[str, Any]]:
        """Return the text and the fields of a message."""
        if not isinstance(msg, Mapping):
            return msg, kwargs
        fields = {str(key): value for key, value in msg.items() if key not in _RECORD_FIELDS}
        kwargs["extra"] = {**fields, **(kwargs.get("extra") or {})}
        text = msgspec.json.encode(msg, enc_hook=str).decode()
        return text.replace("%", "%%") if kwargs.get("args") else text, kwargs


class _DerivedSchema(ToolSchema):
    """The schema of a node that declares none; its name is derived from the class."""


class IntentNode:
    """A unit of work with a contract. Subclasses define `run(self, inputs, memory, context)`.

    `run` validates its inputs before it executes, and its outputs afterwards, wherever it is
    called. `memory` is a dict, or the session state in a run. `context` has the keys of the request
    context: caller, timestamp, request_id, trace_id, user_id, permissions. A node can be an entry
    of `sub_agents`, of `tools` and of `intents`. Without a description in the schema, the docstring
    of the class, or of `run`, describes the intent.
    """

    schema_class: ClassVar[type[ToolSchema]] = ToolSchema
    services: ClassVar[NodeServices]
    #: The type of the inputs, if they are not declared by a JSON schema.
    input_type: ClassVar[Any] = None
    _contract: IntentContract

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        declared = cls.schema_class
        if not declared.name or issubclass(declared, _DerivedSchema):
            name = _WORD.sub("_", cls.__name__.removesuffix("Node") or cls.__name__).lower()
            text = declared.description
            if cls.run is not IntentNode.run:  # other docstrings explain the base class
                described = cls if cls.__doc__ else vars(cls).get("run")
                text = description_of(described) or text
            base = _DerivedSchema if issubclass(_DerivedSchema, declared) else declared
            fields = {"name": name, "description": text}
            cls.schema_class = type(f"{cls.__name__}Schema", (base,), fields)
        cls._contract = cls.schema_class.contract()
        cls.input_type = type_of_inputs(cls.schema_class.inputs)
        if "run" in vars(cls):
            cls.run = _validated(cls.run)  # type: ignore[method-assign] # wraps it

    def run(self, inputs: dict[str, Any], memory: Any, context: dict[str, Any]) -> Any:
        """Do the work for inputs and return the outputs, or an awaitable of them."""
        raise NotImplementedError(
            f"{type(self).__name__} must define `def run(self, inputs, memory, context) -> dict`"
        )

    @property
    def contract(self) -> IntentContract:
        """Return the contract of the node."""
        return self._contract

    @property
    def schema(self) -> ToolSchema:
        """Return the declared schema, whose `name` is that of the intent."""
        return self.schema_class()

    @property
    def logger(self) -> NodeLogger:
        """Return the logger of runs; a mapping as message becomes fields of the record."""
        return NodeLogger(_LOG, {})

    def accept_inputs(self, inputs: object) -> dict[str, Any]:
        """Return valid inputs with their defaults, or raise InvalidInputs."""
        contract = self.contract
        violations = check_fields(self.services.schemas, contract.input_schema, inputs)
        violations = violations or check_type(self.input_type, cast(Mapping[str, Any], inputs))
        if violations:
            raise InvalidInputs(contract.name, violations)
        return _Inputs(contract.name, with_defaults(contract, cast(Mapping[str, Any], inputs)))

    def check_outputs(self, outputs: object) -> dict[str, Any]:
        """Return the outputs as JSON data, or raise InvalidOutputs."""
        contract = self.contract
        try:
            data = to_builtins(outputs)
        except (TypeError, ValueError) as error:
            raise InvalidTree(f"the outputs of {contract.name!r} are not JSON: {error}") from None
        violations = check_fields(self.services.schemas, contract.output_schema, data)
        if violations:
            raise InvalidOutputs(self.agent_name, contract.name, violations)
        return dict(data)

    @property
    def agent_name(self) -> str:
        """Return the name of the node as an agent and as a tool."""
        return self.contract.name.replace(".", "_")

    def call_agent(
        self,
        *,
        url: str,
        payload: Mapping[str, Any],
        token: str = "",
        timeout: float = 60.0,
        allow: Sequence[str] = (),
    ) -> dict[str, Any]:
        """Call an intent of another agent and return its outputs.

        `payload` has `intent`, `inputs` and optionally `memory` and `context`. It is sent to a URL
        that ends with `/run` as it is, and to other URLs as JSON-RPC. `token` is a bearer token or
        "env:NAME". Addresses that are not public must be in `allow`, in ACC_ALLOW, or allowed by
        the server that executes the node. Failures are raised as AccError.
        """
        call = current_call.get()
        work = self.call_agent_async(
            url=url, payload=payload, token=token, timeout=timeout, allow=allow
        )
        instead = "await self.call_agent_async(...)"
        if call is None:
            return run_in_background(work, instead=instead)
        if _is_in_loop(call.loop):
            work.close()
            raise InvalidInput(f"{type(self).__name__}.run is async: use {instead}")
        return asyncio.run_coroutine_threadsafe(work, call.loop).result()

    async def call_agent_async(
        self,
        *,
        url: str,
        payload: Mapping[str, Any],
        token: str = "",
        timeout: float = 60.0,  # noqa: ASYNC109 - a limit of the request
        allow: Sequence[str] = (),
    ) -> dict[str, Any]:
        """Call an intent of another agent like `call_agent`, from an async `run`."""
        call = current_call.get()
        caller = self.services.caller if call is None else call.caller
        sent = dict(payload)
        if call is not None:
            sent["context"] = _outgoing_context(payload, call, has_credentials=bool(token))
        outputs = await caller.call(
            url,
            sent,
            token=token,
            timeout=timeout,
            allow=allow,
            trace_parent="" if call is None else call.trace_parent,
        )
        return dict(outputs)


NodeT = TypeVar("NodeT", bound=IntentNode)


def function_node(
    base: type[NodeT],
    function: Callable[..., Any],
    *,
    name: str,
    description: str,
    inputs: Any,
    outputs: Any,
    reads: Sequence[str],
    writes: Sequence[str],
    context: Sequence[str],
    permissions: Sequence[str],
    idempotent: bool,
) -> NodeT:
    """Return a node of class `base` that executes a function.

    A function with the parameters `inputs`, `memory` and `context`, of which the last two are
    optional, is called like the `run` method of a node. If the type of `inputs` has fields, they
    are the input fields, and the function gets an object of this type; otherwise there are none.
    The parameters of another function are its input fields. A result type with fields declares the
    outputs.
    """
    parameters = tuple(inspect.signature(function).parameters)
    is_node_function = parameters == _PARAMETERS[: len(parameters)] and bool(parameters)
    hints = typing.get_type_hints(function)
    returned = hints.get("return", Any)
    inputs_type: Any = None
    if is_node_function:
        given = hints.get("inputs", Any)
        if is_type_with_fields(given):
            inputs = given if inputs is None else inputs
            inputs_type = None if typing.is_typeddict(given) else given
        elif not _accepts_dict(given):
            raise InvalidTree(
                f"intent {name or function.__name__!r}: `inputs` gets all fields of the inputs, so "
                "its type must be a dict, or a type with fields such as a dataclass or TypedDict. "
                "For a field, choose another name of the parameter"
            )
        contract = IntentContract(
            name=name or function.__name__,
            description=description or description_of(function),
            output_schema=object_schema(returned if is_type_with_fields(returned) else None),
        )
    else:
        contract = contract_of_function(function, name=name, description=description)
    parameters_type = None if is_node_function else type_of_parameters(function)
    input_type = parameters_type if inputs is None else type_of_inputs(inputs)
    contract = replace(
        contract,
        input_schema=contract.input_schema if inputs is None else object_schema(inputs),
        output_schema=contract.output_schema if outputs is None else object_schema(outputs),
        reads=tuple(reads),
        writes=tuple(writes),
        context=tuple(context),
        permissions=tuple(permissions),
        idempotent=idempotent,
    )
    is_wrapped = not is_node_function and outputs is None and has_result_field(returned)

    def run(self: IntentNode, inputs: dict[str, Any], memory: Any, context: dict[str, Any]) -> Any:
        if is_node_function:
            given = inputs if inputs_type is None else convert_inputs(inputs, inputs_type)
            return function(*(given, memory, context)[: len(parameters)])
        result = function(**convert_inputs(inputs, parameters_type))
        if not is_wrapped:
            return result
        if inspect.isawaitable(result):
            return _wrap_result(result)
        return {"result": result}

    schema = type(f"{contract.name}_schema", (ToolSchema,), {"name": contract.name})
    fields = {"schema_class": schema, "run": run, "__doc__": function.__doc__}
    node_class: type[NodeT] = type(function.__name__, (base,), fields)
    node_class._contract = contract
    node_class.input_type = input_type
    return node_class()


def _accepts_dict(declared: Any) -> bool:
    """Return True if a parameter of this type may get a dict."""
    kind = typing.get_origin(declared) or declared
    return kind is Any or (isinstance(kind, type) and issubclass(dict, kind))


class _Inputs(dict[str, Any]):
    """Inputs of a node. Reading a missing field is an error of the caller."""

    __slots__ = ("_intent",)

    def __init__(self, intent: str, values: Mapping[str, Any]) -> None:
        super().__init__(values)
        self._intent = intent

    def __missing__(self, key: str) -> Any:
        raise MissingInput(self._intent, key)


def _validated(run: Callable[..., Any]) -> Callable[..., Any]:
    """Return a `run` method that validates its inputs and outputs."""

    @wraps(run)
    def validated(self: IntentNode, inputs: object, memory: Any, context: Any) -> Any:
        accepted = self.accept_inputs(inputs)
        outputs = run(self, accepted, memory, context)
        if inspect.isawaitable(outputs):
            return _check_later(self, outputs)
        return self.check_outputs(outputs)

    return validated


async def _check_later(node: IntentNode, outputs: Awaitable[Any]) -> dict[str, Any]:
    return node.check_outputs(await outputs)


async def _wrap_result(result: Awaitable[Any]) -> dict[str, Any]:
    return {"result": await result}


def _is_in_loop(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False


def _outgoing_context(
    payload: Mapping[str, Any], call: NodeCall, *, has_credentials: bool
) -> dict[str, Any]:
    """Return the context of a payload for the next hop.

    A received caller is not passed on as the caller, which is this agent: the credentials name it,
    or the context if there are none. The received one becomes `on_behalf_of`.
    """
    given = payload.get("context")
    context = dict(given) if isinstance(given, Mapping) else {}
    original = call.context.get("caller", "")
    if context.get("caller", original) == original:
        context.pop("caller", None)
        if not has_credentials:
            context["caller"] = call.identity
        if original:
            context["on_behalf_of"] = original
    for key in ("trace_id", "request_id"):
        if key in call.context:
            context.setdefault(key, call.context[key])
    if call.permissions is not None:
        wanted = context.get("permissions", call.permissions)
        context["permissions"] = sorted(call.permissions.intersection(wanted))
    if call.flow is not None and call.flow.is_tainted:
        context[UNTRUSTED_METADATA] = True
    if context.get("request_id") == call.context.get("request_id"):
        # The id is that of the received request, which may lead to several calls of one intent.
        context.setdefault("idempotency_key", uuid4().hex)
    return context
