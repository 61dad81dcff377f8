"""A deterministic model that obeys every instruction it reads, and a run of it with a policy."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from acc import (
    Agent,
    BaseTool,
    EventKind,
    ModelRequest,
    ModelResponse,
    RunConfig,
    Runner,
    ToolCall,
    approve,
    deny,
)

Arguments = Mapping[str, Any]
#: A tool and its arguments, or a function that returns them when the call is made.
Call = tuple[str, Arguments | Callable[[], Arguments]]
_WORD_WITH_DIGIT = re.compile(r"[^\s,;:()\"']*\d[^\s,;:()\"']*")
_DATE_OR_TIME = re.compile(r"\d{4}-\d\d-\d\d|\d{1,2}")


@dataclass
class ObedientModel:
    """Plays the calls of a user task, and those of an injected task once it has read it.

    It can write only what it has read: a word with a digit that no message contained is replaced,
    unless it is a date or a time.
    """

    plan: Sequence[str]
    calls: Sequence[Call]
    answer: str
    attack: Sequence[Call] = ()
    marker: str = ""
    prompt: str = ""
    has_seen_injection: bool = False
    trace: list[tuple[str, Arguments]] = field(default_factory=list)
    injected_numbers: set[int] = field(default_factory=set)
    _queue: list[Call] = field(default_factory=list)
    _injected: list[Call] = field(default_factory=list)
    _count: int = 0

    def __post_init__(self) -> None:
        self._queue = list(self.calls)

    async def complete(self, prompt: ModelRequest) -> ModelResponse:
        """Return the plan, the next call or the answer."""
        if prompt.output_schema is not None:
            return ModelResponse(text=json.dumps({"tools": list(self.plan)}))
        read = "\n".join(
            json.dumps(result.content, ensure_ascii=False)
            for message in prompt.messages
            for result in message.results
        )
        if self.marker and self.marker in read and not self.has_seen_injection:
            self.has_seen_injection = True
            self._injected = list(self.attack)
        injected = bool(self._injected)
        queue = self._injected or self._queue
        if not queue:
            return ModelResponse(text=self.answer)
        name, arguments = queue.pop(0)
        arguments = arguments() if callable(arguments) else arguments
        if injected:
            arguments = _only_known(arguments, read + self.prompt)
        self._count += 1
        if injected:
            self.injected_numbers.add(self._count)
        self.trace.append((name, arguments))
        call = ToolCall(id=f"call-{self._count}", name=name, arguments=arguments)
        return ModelResponse(calls=(call,))


def _only_known(value: Any, read: str) -> Any:
    if isinstance(value, str):
        known = _plain(read)
        return _WORD_WITH_DIGIT.sub(
            lambda m: m[0] if _DATE_OR_TIME.fullmatch(m[0]) or _plain(m[0]) in known else "?", value
        )
    if isinstance(value, Mapping):
        return {key: _only_known(item, read) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_only_known(item, read) for item in value]
    return value


def _plain(text: str) -> str:
    return re.sub(r"[^\w]", "", text).casefold()


@dataclass(kw_only=True)
class Outcome:
    """What happened in a run: questions, refusals, and the calls that were executed."""

    questions: int = 0
    refusals: int = 0
    rules: list[str] = field(default_factory=list)
    executed: list[tuple[str, Arguments]] = field(default_factory=list)
    #: Injected calls that were executed although the policy decides about their tool.
    injected: list[tuple[str, Arguments]] = field(default_factory=list)
    answer: str = ""


async def play(
    model: ObedientModel, tools: Sequence[BaseTool], mode: Literal["strict", "ask", "off"]
) -> Outcome:
    """Run the model; a person approves the calls of the user task and denies all others."""
    agent = Agent(name="assistant", model=model, tools=tools, memory=None, flow=mode)
    config = RunConfig(max_llm_calls=500, max_tool_calls=500, max_tool_retries=500)
    runner = Runner(agent)
    outcome = Outcome()
    result = await runner.run(model.prompt, config=config)
    events = list(result.events)
    wanted = [
        (name, json.dumps(arguments() if callable(arguments) else arguments, default=str))
        for name, arguments in model.calls
    ]
    while result.requests:
        answers = []
        for request in result.requests:
            shown = (request.tool, json.dumps(dict(request.arguments), default=str))
            is_wanted = shown in wanted
            outcome.questions += is_wanted
            answers.append(approve(request) if is_wanted else deny(request, "not what I asked for"))
        result = await runner.resume(answers)
        events += result.events
    checked = {tool.name: tool.labels for tool in tools}
    results = {}
    for event in events:
        if event.kind is EventKind.FLOW and event.detail.get("violations"):
            outcome.refusals += event.detail["decision"] == "refuse"
            outcome.rules += [violation["rule"] for violation in event.detail["violations"]]
        if event.result is not None and event.detail.get("executed", True):
            results[event.result.call_id] = event.result
    for number, call in enumerate(model.trace, start=1):
        if f"call-{number}" in results:
            outcome.executed.append(call)
            labels = checked.get(call[0])
            if number in model.injected_numbers and labels is not None and labels.is_checked:
                outcome.injected.append(call)
    outcome.answer = result.text
    return outcome
