"""Calls, sums, prices, and how money is written."""

import pytest

from acc.domain.cost import (
    Account,
    Accounts,
    CostCategory,
    ModelCall,
    Price,
    dollars,
    parse_price,
    spender,
)
from acc.domain.errors import InvalidInput


def call(
    part: CostCategory = CostCategory.AGENT,
    agent: str = "acc",
    *,
    cost: float | None = 0.01,
    from_cache: bool = False,
    failed: bool = False,
    model: str = "m",
) -> ModelCall:
    return ModelCall(
        category=part,
        agent=agent,
        model=model,
        input_tokens=100,
        output_tokens=10,
        cached_tokens=40,
        cost=cost,
        from_cache=from_cache,
        failed=failed,
    )


def test_calls_are_summed_by_category_and_agent() -> None:
    accounts = Accounts(
        [
            call(agent="b"),
            call(CostCategory.JUDGE, "", cost=0.5),
            call(CostCategory.COMPRESSOR, "a", cost=0.02),
            call(agent="a", model="n"),
            call(agent="a"),
            call(agent="z"),
        ]
    )
    rows = accounts.rows(["b", "a"])
    assert [spender(part, agent) for part, agent, _ in rows] == [
        "b",
        "a",
        "compressor of a",
        "z",
        "judge",
    ]
    second = rows[1][2]
    assert (second.calls, second.input_tokens, second.output_tokens) == (2, 200, 20)
    assert second.cost == pytest.approx(0.02)
    assert second.cached_tokens == 80
    assert second.models == ["n", "m"]
    assert accounts.total.calls == 6
    assert accounts.total.cost == pytest.approx(0.56)
    agents = accounts.of(CostCategory.AGENT)
    assert agents is not None
    assert (agents.calls, agents.input_tokens, agents.models) == (4, 400, ["m", "n"])
    assert agents.cost_text == "$0.0400"
    assert Accounts().of(CostCategory.JUDGE) is None


def test_cached_answer_is_free_and_counted_separately() -> None:
    account = Account()
    account.add(call(cost=0.0, from_cache=True))
    assert (account.calls, account.from_cache, account.input_tokens) == (0, 1, 0)
    assert account.cost_text == "$0.0000"
    assert account.known_cost == 0.0


def test_unknown_price_is_not_zero() -> None:
    account = Account()
    account.add(call(cost=None))
    assert account.cost is None
    assert account.cost_text == "price not known"
    assert account.known_cost == 0.0
    account.add(call(cost=0.25))
    assert account.cost_text == "$0.2500 and 1 call of unknown price"
    account.add(call(cost=None))
    assert account.cost_text == "$0.2500 and 2 calls of unknown price"
    assert account.known_cost == 0.25


def test_unknown_price_of_one_agent_does_not_hide_known_price_of_other() -> None:
    accounts = Accounts([call(agent="a", cost=None), call(agent="b", cost=0.5)])
    found = accounts.of(CostCategory.AGENT)
    assert found is not None
    assert found.cost_text == "$0.5000 and 1 call of unknown price"
    unknown = Accounts([call(agent="a", cost=None), call(agent="b", cost=None)]).of(
        CostCategory.AGENT
    )
    assert unknown is not None
    assert unknown.cost_text == "price not known"


def test_failed_call_is_counted_without_tokens_or_price() -> None:
    account = Account()
    account.add(call(cost=None, failed=True))
    assert (account.calls, account.failed, account.unpriced, account.input_tokens) == (1, 1, 0, 0)
    assert account.cost is None
    assert account.cost_text == "not known", "a call that failed may have been charged for"
    account.add(call(cost=None))
    assert account.cost_text == "price not known"
    account.add(call(cost=0.25))
    assert account.cost_text == "$0.2500 and 1 call of unknown price"


@pytest.mark.parametrize(
    ("amount", "expected"),
    [
        (0, "$0.0000"),
        (0.00001, "under $0.0001"),
        (0.0123, "$0.0123"),
        (1234.5, "$1,234.50"),
    ],
)
def test_small_amount_is_not_formatted_as_zero(amount: float, expected: str) -> None:
    assert dollars(amount) == expected


def test_price_is_per_million_tokens() -> None:
    name, price = parse_price("openai-compatible:q@http://h/v1?a=b=0.5/2")
    assert name == "openai-compatible:q@http://h/v1?a=b"
    assert price.cost(1_000_000, 500_000) == 1.5


@pytest.mark.parametrize(
    "text", ["", "m", "m=1", "m=1/", "=1/2", "m=a/b", "m=-1/2", "m=1/nan", "m=1/inf", "m=1/2/3"]
)
def test_invalid_price_text_is_rejected(text: str) -> None:
    with pytest.raises(InvalidInput):
        parse_price(text)
    with pytest.raises(InvalidInput):
        Price(input=-1, output=0)


@pytest.mark.parametrize("figures", ["1000000/1000000", "-1/2", "1/nan", "1/inf"])
def test_price_out_of_range_is_rejected(figures: str) -> None:
    with pytest.raises(InvalidInput, match=f"invalid price {figures}: both must be at least 0"):
        parse_price(f"m={figures}")
