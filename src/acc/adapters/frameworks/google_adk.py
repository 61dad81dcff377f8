"""Agents of the Agent Development Kit as agents of acc, and ACC memory as a plugin of it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from google.adk.agents import BaseAgent
from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.apps import App
from google.adk.events import Event
from google.adk.flows.llm_flows.functions import REQUEST_CONFIRMATION_FUNCTION_CALL_NAME
from google.adk.models.llm_request import LlmRequest
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.genai import types

from acc.application.agents.framework import (
    FrameworkAgent,
    FrameworkAnswer,
    FrameworkEvents,
    FrameworkRequest,
    FrameworkResult,
    FrameworkTurn,
    agent_name,
)
from acc.application.memory.history import HistoryMemory
from acc.application.memory.messages import part_text
from acc.domain.errors import InvalidTree
from acc.domain.value_objects.approval import ApprovalDecision, RequestKind
from acc.domain.value_objects.content import ChatMessage, Part, ToolCall, ToolResult, text_part

_APP = "acc"
_USER = "user"


class AdkContents:
    """Translates the contents of ADK; implements MessageCodec."""

    def is_instruction(self, message: types.Content) -> bool:
        """Return False: ADK sends its instructions beside the contents."""
        return False

    def starts_turn(self, message: types.Content) -> bool:
        """Return True for a text of the user."""
        parts = message.parts or []
        is_result = any(part.function_response for part in parts)
        return message.role == "user" and not is_result and any(part.text for part in parts)

    def decode(self, messages: Sequence[types.Content]) -> list[ChatMessage]:
        """Return contents as messages."""
        return [one for content in messages for one in _decode(content)]

    def encode(self, messages: Sequence[ChatMessage]) -> list[types.Content]:
        """Return messages as contents; results of one response stay together."""
        contents: list[types.Content] = []
        is_after_result = False
        for message in messages:
            parts = list(_encode(message))
            if message.role == "tool" and is_after_result:
                parts = [*(contents.pop().parts or ()), *parts]
            role = "model" if message.role == "assistant" else "user"
            contents.append(types.Content(role=role, parts=parts))
            is_after_result = message.role == "tool"
        return contents


def _decode(content: types.Content) -> Iterator[ChatMessage]:
    texts = [part.text for part in content.parts or () if part.text and not part.thought]
    calls = [
        Part(call=ToolCall(id=_call_id(call), name=str(call.name), arguments=call.args or {}))
        for part in content.parts or ()
        if (call := part.function_call)
    ]
    for part in content.parts or ():
        if response := part.function_response:
            result = ToolResult(
                call_id=_call_id(response),
                name=str(response.name),
                content=response.response,
            )
            yield ChatMessage(role="tool", author=result.name, parts=(Part(result=result),))
    if texts or calls:
        role: Any = "user" if content.role == "user" else "assistant"
        parts = (*(text_part("\n".join(texts)) if texts else ()), *calls)
        yield ChatMessage(role=role, author=role, parts=parts)


def _call_id(part: Any) -> str:
    """Return the id of a call; models without ids have one call of a tool at a time."""
    return str(part.id or part.name)


def _encode(message: ChatMessage) -> Iterator[types.Part]:
    for part in message.parts:
        if part.call is not None:
            call = types.FunctionCall(
                id=part.call.id, name=part.call.name, args=dict(part.call.arguments)
            )
            yield types.Part(function_call=call)
        elif part.result is not None:
            found = part.result.content
            response = types.FunctionResponse(
                id=part.result.call_id,
                name=part.result.name,
                response=found if isinstance(found, dict) else {"result": found},
            )
            yield types.Part(function_response=response)
        else:
            yield types.Part(text=part_text(part))


class AccMemoryPlugin(BasePlugin):
    """Replaces the contents of a model request by a bounded memory."""

    def __init__(self, *, memory: HistoryMemory) -> None:
        super().__init__(name="acc_memory")
        self._memory = memory

    async def before_model_callback(
        self, *, callback_context: Any, llm_request: LlmRequest
    ) -> None:
        """Put the memory into the request; the events of the session are not changed."""
        session = callback_context.session
        llm_request.contents = await self._memory.select(
            llm_request.contents, AdkContents(), session_id=session.id, user_id=session.user_id
        )

    async def after_model_callback(self, *, callback_context: Any, llm_response: Any) -> None:
        """Note the answer of the turn."""
        content = llm_response.content
        if content is None or llm_response.partial:
            return
        messages = AdkContents().decode([content])
        if messages and not messages[-1].calls:
            session = callback_context.session
            await self._memory.note_answer(
                messages[-1].text, session_id=session.id, user_id=session.user_id
            )


@dataclass(kw_only=True, eq=False)
class AdkAgent(FrameworkAgent):
    """An agent of the Agent Development Kit as an agent of acc, anywhere in an agent tree.

    Tools that require confirmation pause the run. `plugins` are plugins of ADK. `name` is by
    default that of the agent.
    """

    framework = "google-adk"

    agent: Any = field(default=None, kw_only=False)
    plugins: Sequence[Any] = ()
    name: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.agent, BaseAgent):
            raise InvalidTree(
                "AdkAgent needs an agent of ADK, such as google.adk.agents.LlmAgent(...), got "
                f"{type(self.agent).__name__}"
            )
        self.name = self.name or agent_name(self.agent.name, "agent")
        super().__post_init__()

    async def invoke(self, turn: FrameworkTurn, events: FrameworkEvents) -> FrameworkResult:
        """Run the agent until it answers or asks."""
        service = InMemorySessionService()
        stored = turn.checkpoint or {}
        session = await service.create_session(
            app_name=_APP, user_id=_USER, session_id=turn.session_id, state=stored.get("state")
        )
        for event in stored.get("events", ()):
            await service.append_event(session, Event.model_validate(event))
        plugins = [*self.plugins, _Recorder(events)]
        app = App(name=_APP, root_agent=self.agent, plugins=plugins)
        runner = Runner(app=app, session_service=service)
        text, failure, requests = "", "", []
        async for event in runner.run_async(
            user_id=_USER,
            session_id=turn.session_id,
            new_message=_message(turn),
            run_config=RunConfig(
                streaming_mode=StreamingMode.SSE if turn.is_streamed else StreamingMode.NONE
            ),
        ):
            found = _text(event)
            if event.partial:
                events.delta(found)
                continue
            requests += _requests(event)
            failure = event.error_message or failure
            if event.is_final_response() and found:
                text = found
        if failure:  # an exception of a tool or model follows its event
            raise RuntimeError(failure)
        ended = await service.get_session(app_name=_APP, user_id=_USER, session_id=turn.session_id)
        stored_events = [one.model_dump(mode="json", exclude_none=True) for one in ended.events]
        return FrameworkResult(
            answer="" if requests else text,
            checkpoint={"state": dict(ended.state), "events": stored_events},
            requests=tuple(requests),
        )


class _Recorder(BasePlugin):
    """Reports model calls and tool calls of a run."""

    def __init__(self, events: FrameworkEvents) -> None:
        super().__init__(name="acc_events")
        self._events = events

    async def before_model_callback(
        self, *, callback_context: Any, llm_request: LlmRequest
    ) -> None:
        codec, contents = AdkContents(), llm_request.contents
        starts = [index for index, one in enumerate(contents) if codec.starts_turn(one)]
        earlier = contents[: starts[-1]] if starts else contents
        texts = [part_text(p) for message in codec.decode(earlier) for p in message.parts]
        instruction = llm_request.config.system_instruction if llm_request.config else None
        self._events.model_started([str(instruction or ""), *texts])

    async def after_model_callback(self, *, callback_context: Any, llm_response: Any) -> None:
        if llm_response.partial:
            return
        usage = llm_response.usage_metadata
        self._events.model_ended(
            input_tokens=getattr(usage, "prompt_token_count", 0) or 0,
            output_tokens=getattr(usage, "candidates_token_count", 0) or 0,
            cached=getattr(usage, "cached_content_token_count", 0) or 0,
        )

    async def before_tool_callback(self, *, tool: Any, tool_args: Any, tool_context: Any) -> None:
        self._events.tool_started(tool_context.function_call_id, tool.name, tool_args)

    async def after_tool_callback(
        self, *, tool: Any, tool_args: Any, tool_context: Any, result: Any
    ) -> None:
        is_error = isinstance(result, dict) and result.keys() == {"error"}
        self._events.tool_ended(tool_context.function_call_id, result, is_error=is_error)

    async def on_tool_error_callback(
        self, *, tool: Any, tool_args: Any, tool_context: Any, error: Exception
    ) -> None:
        self._events.tool_ended(tool_context.function_call_id, str(error), is_error=True)


def _text(event: Event) -> str:
    parts = (event.content.parts if event.content else None) or ()
    return "".join(part.text for part in parts if part.text and not part.thought)


def _requests(event: Event) -> list[FrameworkRequest]:
    requests: list[FrameworkRequest] = []
    for call in event.get_function_calls():
        if call.name == REQUEST_CONFIRMATION_FUNCTION_CALL_NAME:
            args = call.args or {}
            original = args.get("originalFunctionCall") or {}
            hint = (args.get("toolConfirmation") or {}).get("hint")
            requests.append(
                FrameworkRequest(
                    key=call.id or "",
                    kind=RequestKind.CONFIRMATION,
                    message=hint or f"May {original.get('name')!r} be called?",
                    tool=original.get("name") or "",
                    arguments=original.get("args") or {},
                )
            )
    return requests


def _message(turn: FrameworkTurn) -> types.Content:
    if not turn.answers:
        return types.Content(role="user", parts=[types.Part(text=turn.message)])
    return types.Content(role="user", parts=[_response(answer) for answer in turn.answers])


def _response(given: FrameworkAnswer) -> types.Part:
    confirmed = given.answer.verdict is ApprovalDecision.APPROVE
    return types.Part(
        function_response=types.FunctionResponse(
            id=given.request.key,
            name=REQUEST_CONFIRMATION_FUNCTION_CALL_NAME,
            response={"confirmed": confirmed},
        )
    )
