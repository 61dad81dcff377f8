"""Usage and cost from a model to the result and the terminal."""

import io

from rich.console import Console

from acc import Agent, ModelResponse, Runner, Usage
from acc.cli.event_view import show_usage
from acc.testing import ScriptedModel


def test_costs_are_summed_and_unknown_costs_are_not_zero() -> None:
    priced = Usage(llm_calls=1, cost=0.5, priced_calls=1)
    unpriced = Usage(llm_calls=1)
    assert (priced + priced).cost == 1.0
    both = priced + unpriced
    assert (both.cost, both.priced_calls, both.is_priced) == (0.5, 1, False)
    assert (unpriced + priced) == both
    assert (unpriced + unpriced).cost is None
    assert Usage().is_priced


async def test_result_has_the_cost_that_the_model_reported() -> None:
    usage = Usage(input_tokens=10, output_tokens=2, cached_tokens=4, cost=0.25, priced_calls=1)
    free = ModelResponse(text="b", usage=Usage(cost=0.0, priced_calls=1))
    model = ScriptedModel(ModelResponse(text="a", usage=usage), free, "c")
    runner = Runner(Agent(name="a", model=model))
    spent = [(await runner.run(user_id="u", session_id="s", message="m")).usage for _ in range(3)]
    assert [(one.cost, one.priced_calls, one.cached_tokens) for one in spent] == [
        (0.25, 1, 4),
        (0.0, 1, 0),
        (None, 0, 0),
    ]


async def test_closing_a_runner_closes_its_models() -> None:
    class ClosableModel(ScriptedModel):
        closed = 0

        async def aclose(self) -> None:
            self.closed += 1

    closable, plain = ClosableModel("a"), ScriptedModel("b")
    agents = {"closable": closable, "plain": plain}
    for name in agents:
        runner = Runner(Agent(name="a", model=name), models=dict(agents))
        await runner.run(user_id="u", session_id="s", message="m")
        await runner.aclose()
    assert closable.closed == 1


def cost_text(usage: Usage) -> str:
    written = io.StringIO()
    show_usage(Console(file=written, width=200), usage)
    return written.getvalue()


def test_cost_is_shown_with_the_calls_it_covers() -> None:
    assert "$" not in cost_text(Usage(llm_calls=1))
    assert "$0.2500\n" in cost_text(Usage(llm_calls=1, cost=0.25, priced_calls=1))
    assert "$0.2500 for 1 of 3 calls" in cost_text(Usage(llm_calls=3, cost=0.25, priced_calls=1))
