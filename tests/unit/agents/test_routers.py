"""The delegator: by rule, by intent, by a model."""

from typing import Any

import pytest
from small_agents import counts, escalates, of_kind, says, turn

from acc import BaseAgent, EventKind, LoopAgent, RouterAgent, RunConfig, RunContext, Runner
from acc.application.agents.router import find_names
from acc.domain.errors import NoRoute
from acc.testing import ScriptedModel


def desk(**fields: Any) -> RouterAgent:
    """Return a router between two counters, in two languages."""
    return RouterAgent(
        name="desk",
        sub_agents=[
            says("billing", description="Invoices, refunds and payments. 請求書と返金と支払い"),
            says("travel", description="Flights, hotels and trains. 航空券とホテルの予約"),
        ],
        **fields,
    )


@pytest.mark.parametrize(
    ("message", "chosen"),
    [
        ("I want a refund for my invoice", "billing"),
        ("Find me hotels and flights", "travel"),
        ("請求書の返金をお願いします", "billing"),
        ("ホテルの予約をしたい", "travel"),
    ],
)
async def test_intent_is_read_from_descriptions_in_english_and_japanese(
    message: str, chosen: str
) -> None:
    result = await turn(desk(), message)
    assert result.text == chosen
    route = of_kind(result, EventKind.ROUTE)[0]
    assert route.detail["to"] == chosen
    assert route.detail["reason"].startswith("intent ")


async def test_phrases_of_ones_own_decide_where_descriptions_do_not() -> None:
    router = desk(intents={"travel": ["I am homesick", "帰りたい"]})
    assert (await turn(router, "I am so homesick")).text == "travel"
    assert (await turn(desk(intents={"travel": ["帰りたい"]}), "もう帰りたい")).text == "travel"


DESKS: dict[str, dict[str, str]] = {
    "shop": {
        "orders": "Looks up order status and delivery",
        "returns": "Handles returns and refunds",
        "billing": "Answers questions about invoices and payments",
        "tech": "Solves technical problems such as login errors and crashes",
    },
    "店": {
        "orders": "注文状況と配送を調べる",
        "returns": "返品と返金を受け付ける",
        "billing": "請求書と支払いについて答える",
        "tech": "ログインや不具合などの技術的な問題を解決する",
    },
}


def counter(language: str, **fields: Any) -> RouterAgent:
    agents = [says(name, description=text) for name, text in DESKS[language].items()]
    return RouterAgent(name="desk", sub_agents=agents, **fields)


@pytest.mark.parametrize(
    ("language", "message", "chosen"),
    [
        ("shop", "How long does a refund usually take to arrive in my account?", "returns"),
        ("shop", "My invoice from March shows the wrong company address", "billing"),
        ("shop", "Can I split the payment over three months?", "billing"),
        ("shop", "The login page keeps telling me my password is wrong", "tech"),
        ("shop", "Your app crashes whenever I open the camera", "tech"),
        ("店", "先週頼んだ商品の配送がまだ終わっていないようなので確認してもらえますか", "orders"),
        ("店", "注文番号1234はいつ届きますか", "orders"),
        ("店", "サイズが合わなかったので返品したいのですが手順を教えてください", "returns"),
        ("店", "アプリにログインできなくて困っています", "tech"),
        ("店", "画面が真っ白になる不具合を直してください", "tech"),
    ],
)
async def test_without_a_default_whoever_alone_shares_a_word_gets_a_long_message(
    language: str, message: str, chosen: str
) -> None:
    assert (await turn(counter(language), message)).text == chosen
    result = await turn(counter(language, default="orders"), message)
    assert result.text == "orders", "one word is not enough to keep it from the default"


@pytest.mark.parametrize(
    ("language", "message"),
    [
        ("shop", "What is a good recipe for onion soup?"),
        ("shop", "The new delivery man has problems finding our house in the old town"),
        ("店", "美味しいラーメン屋を教えてください"),
        ("店", "明日の東京の天気を調べてください"),
    ],
)
async def test_without_a_default_words_that_speak_for_nobody_or_for_several_are_an_error(
    language: str, message: str
) -> None:
    with pytest.raises(NoRoute):
        await turn(counter(language), message)


async def test_what_nobody_is_described_by_goes_to_the_default() -> None:
    result = await turn(desk(default="billing"), "sing a song about rain")
    assert result.text == "billing"
    assert of_kind(result, EventKind.ROUTE)[0].detail["reason"] == "default (intent 0.00 gave '')"


async def test_without_a_default_it_is_an_error_that_names_the_choices() -> None:
    with pytest.raises(NoRoute, match=r"'desk' .*billing, travel"):
        await turn(desk(), "sing a song about rain")


async def test_a_message_without_words_matches_nobody() -> None:
    with pytest.raises(NoRoute, match="intent 0.00"):
        await turn(desk(), "?!")


async def test_a_rule_chooses_from_the_context() -> None:
    def by_length(ctx: RunContext) -> str:
        return "billing" if len(ctx.message) < 5 else "travel"

    assert (await turn(desk(by=by_length), "pay")).text == "billing"
    result = await turn(desk(by=by_length), "somewhere far")
    assert result.text == "travel"
    assert of_kind(result, EventKind.ROUTE)[0].detail == {"to": "travel", "reason": "rule"}


async def test_a_rule_may_wait() -> None:
    async def by_state(ctx: RunContext) -> str:
        return str(ctx.state.get("wanted", "travel"))

    assert (await turn(desk(by=by_state))).text == "travel"


async def test_a_rule_may_return_the_agent_itself() -> None:
    result = await turn(desk(by=lambda ctx: ctx.agent.sub_agents[1]))
    assert result.text == "travel"
    assert of_kind(result, EventKind.ROUTE)[0].detail == {"to": "travel", "reason": "rule"}
    with pytest.raises(NoRoute, match=r"\(rule gave 'cook'\)"):
        await turn(desk(by=lambda ctx: says("cook")))


async def test_a_rule_that_names_a_stranger_goes_to_the_default_or_fails() -> None:
    result = await turn(desk(by=lambda ctx: "cook", default="travel"))
    assert result.text == "travel"
    assert of_kind(result, EventKind.ROUTE)[0].detail["reason"] == "default (rule gave 'cook')"
    with pytest.raises(NoRoute, match="rule gave 'cook'"):
        await turn(desk(by=lambda ctx: "cook"))


async def test_a_model_chooses_by_the_descriptions() -> None:
    model = ScriptedModel("travel")
    result = await turn(desk(by="model", model=model), "a bed in Rome")
    assert result.text == "travel"
    prompt = model.asked[0]
    assert prompt.query == "a bed in Rome"
    assert "- billing: Invoices" in prompt.instruction
    assert prompt.output_schema == {"type": "string", "enum": ["billing", "travel"]}
    route = of_kind(result, EventKind.ROUTE)[0]
    assert route.usage is not None
    assert (route.usage.llm_calls, result.usage.llm_calls) == (1, 1)


@pytest.mark.parametrize("answer", ['"travel"', "I choose travel.", "**travel**", " travel\n"])
async def test_a_model_may_wrap_the_name_in_other_words(answer: str) -> None:
    assert (await turn(desk(by="model", model=ScriptedModel(answer)))).text == "travel"


@pytest.mark.parametrize(
    ("answer", "names", "found"),
    [
        ("billing0です", ["billing0", "billing1"], ["billing0"]),
        ("担当はbilling-1です。", ["billing", "billing-1"], ["billing-1"]),
        ("Billing2", ["billing1", "billing2"], ["billing2"]),
        ("BILLING", ["billing", "Billing"], ["billing", "Billing"]),
        ("Billing", ["billing", "Billing"], ["Billing"]),
        ("請求係です", ["請求", "請求係"], ["請求係"]),
        ("請求書", ["請求"], []),
        ("サポートが担当します", ["サポート", "ポート"], ["サポート"]),
        ("billing請求です", ["billing", "billing請求"], ["billing請求"]),
        ("Straße", ["stra"], []),
        ("billing10", ["billing1"], []),
    ],
)
def test_a_name_is_found_where_it_is_a_word_of_its_own(
    answer: str, names: list[str], found: list[str]
) -> None:
    assert find_names(answer, names) == found


async def test_a_model_may_name_an_agent_in_a_japanese_sentence_or_in_another_case() -> None:
    for answer in ("travelです", "Travel"):
        assert (await turn(desk(by="model", model=ScriptedModel(answer)))).text == "travel"


async def test_a_model_that_names_nobody_or_two_is_asked_again() -> None:
    model = ScriptedModel("billing or travel", "travelling", "travel")
    result = await turn(desk(by="model", model=model))
    assert result.text == "travel"
    assert result.usage.llm_calls == 3
    assert [m.text for m in model.asked[2].messages] == [
        "billing or travel",
        "Reply with exactly one of: billing, travel.",
        "travelling",
        "Reply with exactly one of: billing, travel.",
    ]


async def test_a_model_that_never_chooses_falls_back_within_its_bound() -> None:
    model = ScriptedModel("dunno", repeat=True)
    config = RunConfig(max_repairs=2)
    result = await turn(desk(by="model", model=model, default="billing"), config=config)
    assert result.text == "billing"
    assert len(model.asked) == 3
    with pytest.raises(NoRoute, match="model gave 'dunno'"):
        await turn(desk(by="model", model=model), config=config)


async def test_a_router_passes_an_escalation_on() -> None:
    router = RouterAgent(name="r", sub_agents=[escalates("stop")], by=lambda ctx: "stop")
    loop = LoopAgent(name="l", sub_agents=[counts("n", "n"), router], max_iterations=5)
    assert (await turn(loop)).state == {"n": 1}


async def test_a_routed_agent_with_a_default_needs_no_description() -> None:
    agents: list[BaseAgent] = [says("a", description="weather"), says("rest")]
    router = RouterAgent(name="r", sub_agents=agents, default="rest")
    runner = Runner(router)
    told = [
        (await runner.run(user_id="u", session_id="s", message=message)).text
        for message in ("the weather", "the news")
    ]
    assert told == ["a", "rest"]
