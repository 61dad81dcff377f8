"""LangGraphAgent: a compiled LangGraph graph as an agent."""

import base64
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, LLMResult
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphBubbleUp
from langgraph.pregel import Pregel
from langgraph.types import Command, Interrupt

from acc.application.agents.framework import (
    FrameworkAgent,
    FrameworkAnswer,
    FrameworkEvents,
    FrameworkRequest,
    FrameworkResult,
    FrameworkTurn,
    agent_name,
)
from acc.application.memory.messages import content_text
from acc.domain.errors import AgentFailed, InvalidTree
from acc.domain.value_objects.approval import ApprovalDecision, RequestKind

#: The thread of a checkpointer that contains one session only.
_THREAD = "session"
_MESSAGES = "messages"
_QUESTION_FIELDS = ("question", "message", "prompt", "query", "description")
#: Fields of an interrupt of LangChain's human-in-the-loop middleware.
_ACTIONS = "action_requests"
_DECISIONS = "decisions"


@dataclass(kw_only=True, eq=False)
class LangGraphAgent(FrameworkAgent):
    """A compiled LangGraph graph as an agent, anywhere in an agent tree.

    The graph gets the message as a human message in `messages` and answers with the last message
    there. `input_key` and `output_key` name other keys of its state; an output that is not a text
    is returned as JSON. `name` is by default that of the graph.

    A graph without a checkpointer, or with LangGraph's `InMemorySaver`, is stored with the session
    in the store of the runner. Any other checkpointer is used as it is. `interrupt()` pauses the
    run, and the answer is its return value: the value of `approve(request, value=...)`, True for an
    approval without a value, False for a denial. `deps` of the run are the graph's `context`.
    """

    framework = "langgraph"

    graph: Any = field(default=None, kw_only=False)
    input_key: str = _MESSAGES
    output_key: str = _MESSAGES
    name: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.graph, Pregel):
            advice = "; call compile() on it" if hasattr(self.graph, "compile") else ""
            raise InvalidTree(
                f"LangGraphAgent needs a compiled graph, got {type(self.graph).__name__}{advice}"
            )
        self.name = self.name or agent_name(self.graph.name, "graph")
        super().__post_init__()

    def check(self) -> None:
        """Raise InvalidTree if the graph does not have the keys."""
        super().check()
        for option, key in (("input_key", self.input_key), ("output_key", self.output_key)):
            if key not in self.graph.channels:
                known = [
                    name for name in self.graph.channels if not name.startswith(("__", "branch:"))
                ]
                advice = f"set {option} to one of {', '.join(known)}"
                if not known:
                    advice = "a graph of the functional API has no state; use a StateGraph"
                raise InvalidTree(
                    f"agent {self.name!r}: the state of the graph has no key {key!r}: {advice}"
                )

    def isolated(self) -> "LangGraphAgent":
        """Return the agent with a graph that has no checkpointer."""
        return replace(self, graph=self.graph.copy({"checkpointer": None}))

    async def invoke(self, turn: FrameworkTurn, events: FrameworkEvents) -> FrameworkResult:
        """Run the graph until it ends or interrupts itself."""
        saver = self.graph.checkpointer
        is_own = not isinstance(saver, BaseCheckpointSaver) or type(saver) is InMemorySaver
        graph = self.graph
        if is_own:
            # Serializers may be limited to the types of the state, which a compiled graph knows.
            saver = InMemorySaver(serde=saver.serde if type(saver) is InMemorySaver else None)
            saver = graph._apply_checkpointer_allowlist(saver)  # there is no public way
            graph = graph.copy({"checkpointer": saver})
            if turn.checkpoint is not None:
                _load(saver, turn.checkpoint)
        config: Any = {
            "configurable": {"thread_id": _THREAD if is_own else turn.session_id},
            "callbacks": [_Handler(events)],
        }
        graph_input = await self._input(graph, config, turn)
        modes: list[Any] = [_MESSAGES] if turn.is_streamed else ["updates"]
        chunks = graph.astream(
            graph_input, config, stream_mode=modes, subgraphs=True, context=turn.deps
        )
        async for _, mode, chunk in chunks:
            if mode == _MESSAGES and isinstance(chunk[0], AIMessage):
                events.delta(str(chunk[0].text))
        state = await graph.aget_state(config)
        requests = tuple(one for item in state.interrupts for one in _requests(item))
        if state.next and not requests:
            raise AgentFailed(
                self.name,
                f"the graph stopped before {', '.join(state.next)} without a question; call "
                "interrupt() in the node, or compile the graph without interrupt_before and "
                "interrupt_after",
            )
        return FrameworkResult(
            answer="" if requests else self._output(state.values),
            checkpoint=_dump(saver, paused=bool(requests)) if is_own else turn.session_id,
            requests=requests,
        )

    async def _input(self, graph: Any, config: Any, turn: FrameworkTurn) -> Any:
        if not turn.answers:
            is_chat = self.input_key == _MESSAGES
            return {self.input_key: [HumanMessage(turn.message)] if is_chat else turn.message}
        waiting = {item.id: item for item in (await graph.aget_state(config)).interrupts}
        values = _resume_values(turn.answers)
        if not values.keys() <= waiting.keys():
            raise AgentFailed(
                self.name,
                "the checkpointer of the graph no longer has the interrupted run; use one that "
                "stores checkpoints on disk, or compile the graph without a checkpointer",
            )
        return Command(resume=values)

    def _output(self, values: Mapping[str, Any]) -> Any:
        value = values.get(self.output_key)
        if isinstance(value, Sequence) and value and isinstance(value[-1], BaseMessage):
            value = value[-1]
        return str(value.text) if isinstance(value, BaseMessage) else value


class _Handler(BaseCallbackHandler):
    """Reports model calls and tool calls of a graph; LangChain calls it from any thread."""

    raise_error = True
    run_inline = True

    def __init__(self, events: FrameworkEvents) -> None:
        self._events = events
        self._models: set[UUID] = set()
        self._calls: dict[UUID, str] = {}

    def on_chat_model_start(
        self, serialized: Any, messages: list[list[BaseMessage]], *, run_id: UUID, **options: Any
    ) -> None:
        sent = messages[0]
        own = max((i for i, m in enumerate(sent) if isinstance(m, HumanMessage)), default=len(sent))
        self._events.model_started([_message_text(message) for message in sent[:own]])
        self._models.add(run_id)

    def on_llm_start(
        self, serialized: Any, prompts: list[str], *, run_id: UUID, **options: Any
    ) -> None:
        self._events.model_started()
        self._models.add(run_id)

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **options: Any) -> None:
        if run_id not in self._models:
            return
        self._models.discard(run_id)
        generation = response.generations[0][0] if response.generations else None
        message = generation.message if isinstance(generation, ChatGeneration) else None
        usage = (message.usage_metadata if isinstance(message, AIMessage) else None) or {}
        details: Mapping[str, Any] = usage.get("input_token_details") or {}
        self._events.model_ended(
            input_tokens=usage.get("input_tokens", 0),
            output_tokens=usage.get("output_tokens", 0),
            cached=details.get("cache_read", 0),
        )

    def on_tool_start(
        self,
        serialized: dict[str, Any],
        input_str: str,
        *,
        run_id: UUID,
        inputs: dict[str, Any] | None = None,
        tool_call_id: str | None = None,
        **options: Any,
    ) -> None:
        call_id = self._calls[run_id] = tool_call_id or str(run_id)
        name = str((serialized or {}).get("name") or "tool")
        self._events.tool_started(call_id, name, input_str if inputs is None else inputs)

    def on_tool_end(self, output: Any, *, run_id: UUID, **options: Any) -> None:
        call_id = self._calls.pop(run_id, "")
        is_message = isinstance(output, ToolMessage)
        self._events.tool_ended(
            call_id,
            output.content if is_message else output,
            is_error=is_message and output.status == "error",
        )

    def on_tool_error(self, error: BaseException, *, run_id: UUID, **options: Any) -> None:
        call_id = self._calls.pop(run_id, "")
        if not isinstance(error, GraphBubbleUp):  # an interrupt is no error
            self._events.tool_ended(call_id, f"{type(error).__name__}: {error}", is_error=True)


def _message_text(message: BaseMessage) -> str:
    calls = getattr(message, "tool_calls", ())
    return " ".join((str(message.text), *(f"{c['name']} {content_text(c['args'])}" for c in calls)))


def _requests(interrupt: Interrupt) -> list[FrameworkRequest]:
    """Return what an interrupt asks; one of LangChain's middleware may ask several things."""
    value = interrupt.value
    actions = value.get(_ACTIONS) if isinstance(value, Mapping) else None
    if isinstance(actions, Sequence) and actions:
        return [
            FrameworkRequest(
                key=f"{interrupt.id}#{number}",
                kind=RequestKind.CONFIRMATION,
                message=str(action.get("description") or f"May {action['name']!r} be called?"),
                tool=action["name"],
                arguments=action["args"],
            )
            for number, action in enumerate(actions)
        ]
    if isinstance(value, Mapping):
        found = (value[name] for name in _QUESTION_FIELDS if isinstance(value.get(name), str))
        message = next(found, content_text(value))
        return [FrameworkRequest(key=interrupt.id, message=message, arguments=_plain(value))]
    return [FrameworkRequest(key=interrupt.id, message=content_text(value))]


def _plain(value: Mapping[str, Any]) -> dict[str, Any]:
    kinds = str | int | float | bool | None
    return {str(k): v if isinstance(v, kinds) else content_text(v) for k, v in value.items()}


def _resume_values(answers: Sequence[FrameworkAnswer]) -> dict[str, Any]:
    """Return the values of interrupts by their ids."""
    values: dict[str, Any] = {}
    for request, answer in answers:
        approved = answer.verdict is ApprovalDecision.APPROVE
        interrupt_id, is_action, _ = request.key.partition("#")
        if not is_action:
            values[interrupt_id] = (
                approved if answer.value is None or not approved else answer.value
            )
            continue
        decision: dict[str, Any] = {"type": "approve"}
        if not approved:
            decision = {"type": "reject", "message": answer.reason or answer.verdict.value}
        elif answer.arguments is not None:
            action = {"name": request.tool, "args": dict(answer.arguments)}
            decision = {"type": "edit", "edited_action": action}
        values.setdefault(interrupt_id, {_DECISIONS: []})[_DECISIONS].append(decision)
    return values


def _dump(saver: InMemorySaver, *, paused: bool) -> str:
    """Return the newest checkpoint of a graph and its subgraphs as text.

    Checkpoints of tasks are needed only while the graph is interrupted.
    """
    storage, blobs, writes = {}, [], []
    for namespace, checkpoints in saver.storage[_THREAD].items():
        if not checkpoints or (":" in namespace and not paused):
            continue
        newest = max(checkpoints)
        checkpoint, metadata, _ = checkpoints[newest]
        versions = saver.serde.loads_typed(checkpoint)["channel_versions"]
        keys = [(_THREAD, namespace, name, version) for name, version in versions.items()]
        is_complete = all(key in saver.blobs for key in keys)
        if is_complete:  # else a channel is stored as changes since an earlier checkpoint
            checkpoints = {newest: (checkpoint, metadata, None)}
        storage[namespace] = dict(checkpoints)
        blobs += [
            (key, value)
            for key, value in saver.blobs.items()
            if key[1] == namespace and (key in keys or not is_complete)
        ]
        writes += [
            (key, list(value.items()))
            for key, value in saver.writes.items()
            if key[1] == namespace and key[2] in checkpoints
        ]
    kind, data = saver.serde.dumps_typed([list(storage.items()), blobs, writes])
    return f"{kind} {base64.b64encode(zlib.compress(data)).decode()}"


def _load(saver: InMemorySaver, text: str) -> None:
    kind, _, encoded = text.partition(" ")
    data = zlib.decompress(base64.b64decode(encoded))
    storage, blobs, writes = saver.serde.loads_typed((kind, data))
    for namespace, checkpoints in storage:
        saver.storage[_THREAD][namespace] = {
            name: (_pair(value[0]), _pair(value[1]), value[2])
            for name, value in checkpoints.items()
        }
    for key, value in blobs:
        saver.blobs[_tuple4(key)] = _pair(value)
    for key, items in writes:
        saver.writes[_tuple3(key)] = {
            (inner[0], inner[1]): (value[0], value[1], _pair(value[2]), value[3])
            for inner, value in items
        }


def _pair(value: Sequence[Any]) -> tuple[str, bytes]:
    return value[0], value[1]


def _tuple3(value: Sequence[Any]) -> tuple[str, str, str]:
    return value[0], value[1], value[2]


def _tuple4(value: Sequence[Any]) -> tuple[str, str, str, Any]:
    return value[0], value[1], value[2], value[3]
