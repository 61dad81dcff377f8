"""Output types: `result.output`, corrections, unions, and partial outputs of a stream."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Literal, TypedDict

import msgspec
import pydantic
import pytest
from agent_support import WHO, Does, events_of_kind, says, turn
from hypothesis import given
from hypothesis import strategies as st

from acc import (
    Agent,
    Event,
    EventKind,
    InvalidTree,
    LoopAgent,
    ModelOutputInvalid,
    ModelRequest,
    ModelResponse,
    OutputUnavailable,
    ParallelAgent,
    PartialOutput,
    RouterAgent,
    RunConfig,
    Runner,
    RunStatus,
    SequentialAgent,
    approve,
    tool,
)
from acc.application.agents.output import complete_json
from acc.testing import ScriptedModel, call


@dataclass
class Weather:
    city: str
    degrees: float = 20.0


@dataclass
class Problem:
    reason: str


class Forecast(TypedDict):
    city: str
    days: list[int]


class Point(msgspec.Struct):
    x: int
    y: int = 0


class Place(pydantic.BaseModel):
    name: str
    size: Literal["small", "large"] = "small"


class Town(pydantic.BaseModel):
    name: str
    mayor: str


def model(*answers: Any) -> ScriptedModel:
    return ScriptedModel(*answers)


@pytest.mark.parametrize(
    ("of", "answer", "expected"),
    [
        (Weather, '{"city": "Kyoto"}', Weather("Kyoto")),
        (Forecast, '{"city": "大阪", "days": [1]}', {"city": "大阪", "days": [1]}),
        (Point, '```json\n{"x": 3}\n```', Point(3)),
        (Place, '{"name": "Nara"}', Place(name="Nara")),
        (list[Weather], '[{"city": "A"}, {"city": "B"}]', [Weather("A"), Weather("B")]),
        (list[Place], '[{"name": "A"}]', [Place(name="A")]),
        (Weather | None, "null", None),
        (Weather | Problem, '{"reason": "no data"}', Problem("no data")),
        (Weather | Problem, '{"city": "Kobe"}', Weather("Kobe")),
        (Place | Town, '{"name": "Uji", "mayor": "M"}', Town(name="Uji", mayor="M")),
        (Place | Problem, '{"reason": "x"}', Problem("x")),
        (list[Weather | Problem], '[{"reason": "x"}]', [Problem("x")]),
        (Weather | str, '{"city": "Kobe"}', Weather("Kobe")),
        (Weather | str, "I do not know.", "I do not know."),
        (Weather | str, '"quoted"', "quoted"),
        (Weather | str, "42", "42"),
        (int, "42", 42),
        (Literal["yes", "no"], '"yes"', "yes"),
        (dict[str, int], '{"a": 1}', {"a": 1}),
        (str, "plain", "plain"),
    ],
)
async def test_output_has_the_output_type(of: Any, answer: str, expected: object) -> None:
    agent = Agent(name="a", model=model(answer), output_type=of, output_key="out")
    result = await Runner(agent).run(**WHO, message="go")
    assert result.output == expected
    assert type(result.output) is type(expected)
    assert result.text == answer
    assert "out" in result.state


async def test_output_is_the_text_without_output_type() -> None:
    assert (await turn(Agent(name="a", model=model("hello")))).output == "hello"


async def test_output_schema_is_another_name_of_output_type() -> None:
    agent = Agent(name="a", model=model('{"city": "X"}'), output_schema=Weather)
    assert agent.output_type is Weather
    assert (await turn(agent)).output == Weather("X")


def test_output_type_and_another_output_schema_are_rejected() -> None:
    with pytest.raises(InvalidTree, match="set only one"):
        Agent[Any, Any](name="a", output_type=Weather, output_schema=Point)


@pytest.mark.parametrize("of", [3, "Weather", object(), Weather("x"), [Weather]])
def test_output_type_must_be_a_type(of: Any) -> None:
    with pytest.raises(InvalidTree, match="agent 'a': no JSON schema for output_type"):
        Agent(name="a", output_type=of)


async def test_output_type_may_be_given_as_type_argument_only() -> None:
    agent = Agent[None, Weather](name="a", model=model('{"city": "X"}'))
    assert (await turn(agent)).output == Weather("X")
    assert agent.json_schema is not None


async def test_schema_of_a_union_has_all_members() -> None:
    agent = Agent(
        name="a", model=(scripted := model('{"reason": "x"}')), output_type=Weather | Place
    )
    with pytest.raises(ModelOutputInvalid):
        await turn(agent, config=RunConfig(max_repairs=0))
    schema: Any = scripted.requests[0].output_schema
    assert [item["$ref"] for item in schema["anyOf"][:1]] == ["#/$defs/Weather"]
    assert schema["anyOf"][1]["title"] == "Place"
    assert "Weather" in schema["$defs"]


async def test_rejected_answer_is_corrected_with_the_errors_of_all_members() -> None:
    scripted = model('{"degrees": 3}', '{"city": "X"}')
    result = await turn(Agent(name="a", model=scripted, output_type=Weather | Problem))
    assert result.output == Weather("X")
    (fault,) = events_of_kind(result, EventKind.FAULT)
    assert "`city`" in fault.detail["error"] and "`reason`" in fault.detail["error"]


async def test_output_of_paused_run_is_unavailable_until_it_is_resumed() -> None:
    @tool(confirm=True)
    def look() -> str:
        """Look."""
        return "sunny"

    agent = Agent(name="a", model=model(call("look"), '{"city": "X"}'), tools=[look])
    runner = Runner(Agent(name="b", model=agent.model, tools=[look], output_type=Weather))
    paused = await runner.run(**WHO, message="go")
    assert paused.status is RunStatus.INPUT_REQUIRED
    with pytest.raises(OutputUnavailable, match="input_required; resume it"):
        _ = paused.output
    done = await runner.resume(**WHO, answers=approve(paused.requests[0].id))
    assert done.output == Weather("X")


async def test_output_of_replayed_answer_is_decoded_again() -> None:
    async def ask(ctx: Any) -> str:
        await ctx.request_input("Sure?")
        return "done"

    first = Agent(name="a", model=model('{"city": "X"}'), output_type=Weather)
    runner = Runner(SequentialAgent(name="s", sub_agents=[Does(name="d", do=ask), first]))
    paused = await runner.run(**WHO, message="go")
    done = await runner.resume(**WHO, answers=approve(paused.requests[0].id))
    assert done.output == Weather("X")


async def test_workflow_has_the_output_of_the_agent_that_answered() -> None:
    def worker(name: str = "w", **options: Any) -> Agent[Any, Weather]:
        return Agent(
            name=name, model=model('{"city": "X"}'), output_type=Weather, description="d", **options
        )

    trees: list[Any] = [
        SequentialAgent(name="s", sub_agents=[says("x"), worker()]),
        LoopAgent(name="l", sub_agents=[worker()], max_iterations=1),
        RouterAgent(name="r", sub_agents=[worker()], by=lambda ctx: "w"),
    ]
    for tree in trees:
        assert (await turn(tree)).output == Weather("X")
    both = ParallelAgent(name="p", sub_agents=[says("x", "text"), worker()])
    assert (await turn(both)).output == {"x": "text", "w": Weather("X")}


async def test_output_after_transfer_has_the_type_of_the_root() -> None:
    def root(answer: str, of: Any) -> Agent[Any, Any]:
        target = Agent(name="t", model=model(answer), output_type=Weather, description="weather")
        script = model(call("transfer_to_agent", agent_name="t"))
        return Agent(name="r", model=script, output_type=of, sub_agents=[target])

    text = '{"city": "X"}'
    assert (await turn(root(text, str))).output == text
    assert (await turn(root(text, Weather))).output == Weather("X")
    assert (await turn(root(text, Weather | Problem))).output == Weather("X")
    result = await turn(root(text, Problem))
    with pytest.raises(OutputUnavailable, match="answer of 't' .* output type of 'r'"):
        _ = result.output


async def test_answer_of_callback_is_decoded() -> None:
    agent = Agent(
        name="a",
        model=model('{"city": "X"}'),
        output_type=Weather,
        after_agent_callback=lambda ctx, text: text.replace("X", "Y"),
    )
    assert (await turn(agent)).output == Weather("Y")
    unchanged = Agent(
        name="a",
        model=model('{"city": "X"}'),
        output_type=Weather,
        after_agent_callback=lambda ctx, text: None,
    )
    assert (await turn(unchanged)).output == Weather("X")


async def stream(agent: Agent[Any, Any], **options: Any) -> list[Event]:
    return [event async for event in Runner(agent).stream(**WHO, message="go", **options)]


async def partials(agent: Any) -> list[PartialOutput[Any]]:
    return [item async for item in Runner(agent).stream_output(**WHO, message="go")]


async def test_structured_answer_is_not_streamed_as_text() -> None:
    scripted = model('{"city": 3}', '{"city": "New York"}')
    events = await stream(Agent(name="a", model=scripted, output_type=Weather))
    assert not [event for event in events if event.kind is EventKind.DELTA]
    shown = [event for event in events if event.kind is EventKind.PARTIAL_OUTPUT]
    assert all(event.partial for event in shown)
    assert [(event.detail["attempt"], event.partial_output) for event in shown] == [
        (1, {}),
        (1, {"city": 3}),
        (2, {}),
        (2, {"city": "New "}),
        (2, {"city": "New York"}),
    ]
    assert [e.text for e in events if e.kind is EventKind.MESSAGE] == ["go", '{"city": "New York"}']
    assert events[0].partial_output is None


async def test_last_partial_output_has_the_attempt_that_was_accepted() -> None:
    scripted = model('{"city": 3}', '{"city": "New York"}')
    found = await partials(Agent(name="a", model=scripted, output_type=Weather))
    assert found[-1].result is not None
    assert [partial.attempt for partial in found] == [1, 1, 2, 2, 2, 2]


async def test_attempts_of_text_are_counted() -> None:
    found = await partials(Agent(name="a", model=model("  ", "hello")))
    assert (found[-1].attempt, found[-1].output) == (2, "hello")
    assert found[-2].attempt == 2


async def test_partial_outputs_are_typed_and_the_last_has_the_result() -> None:
    agent = Agent(
        name="a",
        model=model('[{"city": "A"}, {"city": "B", "degrees": 7}]'),
        output_type=list[Weather],
    )
    found = await partials(agent)
    assert [item.output for item in found] == [
        [],
        [Weather("A")],
        [Weather("A")],
        [Weather("A"), Weather("B")],
        [Weather("A"), Weather("B", 7)],
        [Weather("A"), Weather("B", 7)],
    ]
    assert [item.result is None for item in found] == [*[True] * 5, False]
    last = found[-1].result
    assert last is not None and last.output == [Weather("A"), Weather("B", 7)]
    assert found[-1].data == [
        {"city": "A", "degrees": 20.0},
        {"city": "B", "degrees": 7.0},
    ]


async def test_partial_outputs_of_text_grow() -> None:
    @tool
    def look() -> str:
        """Look."""
        return "x"

    thinking = ModelResponse(text="Let me see.", calls=(call("look"),))
    agent = Agent(name="a", model=model(thinking, "It is warm."), tools=[look])
    found = await partials(agent)
    texts = ["Let ", "Let me ", "Let me see.", "It ", "It is ", "It is warm.", "It is warm."]
    assert [item.output for item in found] == texts


async def test_partial_outputs_of_paused_run_end_with_its_result() -> None:
    @tool(confirm=True)
    def look() -> str:
        """Look."""
        return "x"

    agent = Agent(name="a", model=model(call("look"), '{"city": "X"}'), tools=[look])
    (last,) = await partials(Agent(name="a", model=agent.model, tools=[look], output_type=Weather))
    assert last.result is not None and last.result.status is RunStatus.INPUT_REQUIRED
    assert (last.data, last.output) == (None, None)


class Pieces(ScriptedModel):
    """A model that streams an answer character by character."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    async def stream(self, prompt: ModelRequest) -> AsyncIterator[str | ModelResponse]:
        for character in self.text:
            yield character
        yield ModelResponse(text=self.text)


async def test_partial_outputs_of_long_answers_cost_time_in_proportion_to_their_length() -> None:
    def events(length: int) -> Agent[Any, list[str]]:
        text = msgspec.json.encode(["x" * 8] * length).decode()
        return Agent(name="a", model=Pieces(text), output_type=list[str])

    few, many = len(await partials(events(100))), len(await partials(events(1_000)))
    assert few < 200 and many < few + 120  # the number grows with the logarithm of the length


@pytest.mark.parametrize(
    ("text", "completed"),
    [
        ("", ""),
        ("hello", ""),
        ("{", "{}"),
        ('{"a', "{}"),
        ('{"a"', "{}"),
        ('{"a":', "{}"),
        ('{"a": 1', "{}"),
        ('{"a": 1,', '{"a": 1}'),
        ('{"a": "x', '{"a": "x"}'),
        ('{"a": "x\\', '{"a": "x"}'),
        ('{"a": "x\\\\', '{"a": "x\\\\"}'),
        ('{"a": "\\u30', '{"a": ""}'),
        ('{"a": "日本', '{"a": "日本"}'),
        ('{"a": [1, 2', '{"a": [1]}'),
        ('{"a": [1, {"b": true, "c', '{"a": [1, {"b": true}]}'),
        ("[tru", "[]"),
        ("]", ""),
        ('{"a": "x"}}', ""),
    ],
)
def test_incomplete_json_is_completed(text: str, completed: str) -> None:
    assert complete_json(text) == completed


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=12,
)


@given(value=st.lists(json_values) | st.dictionaries(st.text(), json_values), data=st.data())
def test_every_prefix_of_json_is_completed_to_valid_json(value: Any, data: st.DataObject) -> None:
    text = msgspec.json.encode(value).decode()
    prefix = text[: data.draw(st.integers(1, len(text)))]
    completed = complete_json(prefix)
    assert type(msgspec.json.decode(completed)) is type(value)
    assert complete_json(text) == text


async def test_subclass_of_typed_agent_has_its_types() -> None:
    class Reporter(Agent[None, Weather]):
        pass

    class Special(Reporter):
        pass

    for kind in (Reporter, Special):
        agent = kind(name="a", model=model('{"city": "X"}'))
        assert (await turn(agent)).output == Weather("X")


async def test_partial_outputs_leave_out_branches_and_agents_used_as_tools() -> None:
    helper = Agent(name="helper", model=model("inner text"), description="Helps.")
    outer = Agent(name="a", model=model(call("helper", request="x"), "outer"), tools=[helper])
    assert {item.author for item in await partials(outer)} == {"a"}
    both = ParallelAgent(name="p", sub_agents=[Agent(name="x", model=model("one two")), says("y")])
    (last,) = await partials(both)
    assert last.output == {"x": "one two", "y": "y"}


async def test_partial_outputs_after_transfer_have_the_type_of_the_root() -> None:
    target = Agent(name="t", model=model('{"city": "X"}'), output_type=Weather, description="w")
    root = Agent(
        name="r", model=model(call("transfer_to_agent", agent_name="t")), sub_agents=[target]
    )
    found = await partials(root)
    assert [item.output for item in found] == [None, None, '{"city": "X"}']
    assert [item.data for item in found] == [{}, {"city": "X"}, '{"city": "X"}']
    other = Agent(
        name="r",
        model=model(call("transfer_to_agent", agent_name="u")),
        output_type=Problem,
        sub_agents=[Agent(name="u", model=model("plain"), description="w")],
    )
    last = (await partials(other))[-1]
    assert (last.output, last.data) == (None, "plain")
    assert last.result is not None and last.result.status is RunStatus.COMPLETED
