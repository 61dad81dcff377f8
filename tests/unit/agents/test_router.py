"""RouterAgent: choice by rule, by intent and by a model."""

from typing import Any

import pytest
from agent_support import counts, escalates, events_of_kind, says, turn

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
async def test_intent_matches_descriptions_in_both_languages(message: str, chosen: str) -> None:
    result = await turn(desk(), message)
    assert result.text == chosen
    route = events_of_kind(result, EventKind.ROUTE)[0]
    assert route.detail["to"] == chosen
    assert route.detail["reason"].startswith("intent ")


async def test_intent_phrases_match_messages() -> None:
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
async def test_only_agent_sharing_a_word_is_chosen_without_default(
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
async def test_ambiguous_message_raises_no_route(language: str, message: str) -> None:
    with pytest.raises(NoRoute):
        await turn(counter(language), message)


async def test_unmatched_message_goes_to_default() -> None:
    result = await turn(desk(default="billing"), "sing a song about rain")
    assert result.text == "billing"
    assert (
        events_of_kind(result, EventKind.ROUTE)[0].detail["reason"]
        == "default (intent 0.00 gave '')"
    )


async def test_no_route_error_lists_sub_agents() -> None:
    with pytest.raises(NoRoute, match=r"'desk' .*billing, travel"):
        await turn(desk(), "sing a song about rain")


async def test_message_without_words_matches_no_agent() -> None:
    with pytest.raises(NoRoute, match="intent 0.00"):
        await turn(desk(), "?!")


async def test_rule_chooses_by_context() -> None:
    def by_length(ctx: RunContext) -> str:
        return "billing" if len(ctx.message) < 5 else "travel"

    assert (await turn(desk(by=by_length), "pay")).text == "billing"
    result = await turn(desk(by=by_length), "somewhere far")
    assert result.text == "travel"
    assert events_of_kind(result, EventKind.ROUTE)[0].detail == {"to": "travel", "reason": "rule"}


async def test_rule_may_be_async() -> None:
    async def by_state(ctx: RunContext) -> str:
        return str(ctx.state.get("wanted", "travel"))

    assert (await turn(desk(by=by_state))).text == "travel"


async def test_rule_may_return_an_agent() -> None:
    result = await turn(desk(by=lambda ctx: ctx.agent.sub_agents[1]))
    assert result.text == "travel"
    assert events_of_kind(result, EventKind.ROUTE)[0].detail == {"to": "travel", "reason": "rule"}
    with pytest.raises(NoRoute, match=r"\(rule gave 'cook'\)"):
        await turn(desk(by=lambda ctx: says("cook")))


async def test_unknown_choice_of_rule_uses_default_or_fails() -> None:
    result = await turn(desk(by=lambda ctx: "cook", default="travel"))
    assert result.text == "travel"
    assert (
        events_of_kind(result, EventKind.ROUTE)[0].detail["reason"] == "default (rule gave 'cook')"
    )
    with pytest.raises(NoRoute, match="rule gave 'cook'"):
        await turn(desk(by=lambda ctx: "cook"))


async def test_model_chooses_by_descriptions() -> None:
    model = ScriptedModel("travel")
    result = await turn(desk(by="model", model=model), "a bed in Rome")
    assert result.text == "travel"
    prompt = model.requests[0]
    assert prompt.query == "a bed in Rome"
    assert "- billing: Invoices" in prompt.instruction
    assert prompt.output_schema == {"type": "string", "enum": ["billing", "travel"]}
    route = events_of_kind(result, EventKind.ROUTE)[0]
    assert route.usage is not None
    assert (route.usage.llm_calls, result.usage.llm_calls) == (1, 1)


@pytest.mark.parametrize("answer", ['"travel"', "I choose travel.", "**travel**", " travel\n"])
async def test_model_may_answer_with_a_sentence(answer: str) -> None:
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
def test_find_names_matches_whole_words(answer: str, names: list[str], found: list[str]) -> None:
    assert find_names(answer, names) == found


async def test_model_may_answer_in_japanese_or_other_case() -> None:
    for answer in ("travelです", "Travel"):
        assert (await turn(desk(by="model", model=ScriptedModel(answer)))).text == "travel"


async def test_ambiguous_model_choice_is_requested_again() -> None:
    model = ScriptedModel("billing or travel", "travelling", "travel")
    result = await turn(desk(by="model", model=model))
    assert result.text == "travel"
    assert result.usage.llm_calls == 3
    assert [m.text for m in model.requests[2].following] == [
        "billing or travel",
        "Reply with exactly one of: billing, travel.",
        "travelling",
        "Reply with exactly one of: billing, travel.",
    ]


async def test_model_choice_falls_back_after_max_repairs() -> None:
    model = ScriptedModel("dunno", repeat=True)
    config = RunConfig(max_repairs=2)
    result = await turn(desk(by="model", model=model, default="billing"), config=config)
    assert result.text == "billing"
    assert len(model.requests) == 3
    with pytest.raises(NoRoute, match="model gave 'dunno'"):
        await turn(desk(by="model", model=model), config=config)


async def test_router_propagates_escalation() -> None:
    router = RouterAgent(name="r", sub_agents=[escalates("stop")], by=lambda ctx: "stop")
    loop = LoopAgent(name="l", sub_agents=[counts("n", "n"), router], max_iterations=5)
    assert (await turn(loop)).state == {"n": 1}


async def test_default_agent_needs_no_description() -> None:
    agents: list[BaseAgent] = [says("a", description="weather"), says("rest")]
    router = RouterAgent(name="r", sub_agents=agents, default="rest")
    runner = Runner(router)
    actual = [
        (await runner.run(user_id="u", session_id="s", message=message)).text
        for message in ("the weather", "the news")
    ]
    assert actual == ["a", "rest"]
