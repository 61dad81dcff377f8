"""What models spend, in tokens and in money, on its way to who pays."""

import io

from rich.console import Console

from acc import Agent, ModelAnswer, Runner, Usage
from acc.cli.event_view import show_usage
from acc.testing import ScriptedModel


def test_prices_add_up_and_what_has_none_is_not_free() -> None:
    priced = Usage(llm_calls=1, cost=0.5, priced_calls=1)
    unpriced = Usage(llm_calls=1)
    assert (priced + priced).cost == 1.0
    both = priced + unpriced
    assert (both.cost, both.priced_calls, both.is_priced) == (0.5, 1, False)
    assert (unpriced + priced) == both
    assert (unpriced + unpriced).cost is None
    assert Usage().is_priced


async def test_what_a_model_tells_of_money_reaches_the_result() -> None:
    told = Usage(input_tokens=10, output_tokens=2, cached_tokens=4, cost=0.25, priced_calls=1)
    free = ModelAnswer(text="b", usage=Usage(cost=0.0, priced_calls=1))
    model = ScriptedModel(ModelAnswer(text="a", usage=told), free, "c")
    runner = Runner(Agent(name="a", model=model))
    spent = [(await runner.run(user_id="u", session_id="s", message="m")).usage for _ in range(3)]
    assert [(one.cost, one.priced_calls, one.cached_tokens) for one in spent] == [
        (0.25, 1, 4),
        (0.0, 1, 0),
        (None, 0, 0),
    ]


async def test_closing_a_runner_closes_what_its_models_hold_open() -> None:
    class Held(ScriptedModel):
        closed = 0

        async def aclose(self) -> None:
            self.closed += 1

    held, plain = Held("a"), ScriptedModel("b")
    agents = {"held": held, "plain": plain}
    for name in agents:
        runner = Runner(Agent(name="a", model=name), models=dict(agents))
        await runner.run(user_id="u", session_id="s", message="m")
        await runner.aclose()
    assert held.closed == 1


def shown(usage: Usage) -> str:
    written = io.StringIO()
    show_usage(Console(file=written, width=200), usage)
    return written.getvalue()


def test_money_is_shown_where_it_is_known_and_for_how_much_of_it() -> None:
    assert "$" not in shown(Usage(llm_calls=1))
    assert "$0.2500\n" in shown(Usage(llm_calls=1, cost=0.25, priced_calls=1))
    assert "$0.2500 for 1 of 3 calls" in shown(Usage(llm_calls=3, cost=0.25, priced_calls=1))
