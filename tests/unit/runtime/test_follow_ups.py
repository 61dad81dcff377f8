"""Follow-ups that need the last answer, through a runner with ACC memory."""

import pytest

from acc import Agent, Runner
from acc.testing import ScriptedModel

EARLIER = [("It rains.", "I see."), ("The bus was late.", "Sorry to hear that."), ("Hello!", "Hi.")]
#: Question, answer, and the follow-up that cannot be answered without the answer.
FOLLOW_UPS = [
    ("Which of the three lamps fit?", "1. Oslo, 2. Bergen, 3. Tromso.", "Take the second one."),
    ("Describe the harbour.", "The harbour has two cranes and a long pier.", "Shorter."),
    ("Shall I order the blue tiles?", "I would order 40 of them. Shall I do it?", "Yes."),
    ("How much flour do I need?", "You need 250 grams.", "Double it."),
    ("Who repairs the boiler?", "Mr Okafor repairs it.", "Call him."),
    ("Translate 'cat'.", "It is 'gato'.", "And the plural?"),
    ("三つのうちどれが合いますか？", "一番は青、二番は緑、三番は白です。", "二つ目にして。"),
    ("港を説明して。", "港にはクレーンが二台と長い桟橋があります。", "もっと短く。"),
    ("青いタイルを注文しますか？", "40枚注文しましょうか。", "はい。"),
    ("小麦粉はどれだけ必要？", "250グラムです。", "倍にして。"),
    ("ボイラーは誰が直しますか？", "大川さんが直します。", "電話して。"),
    ("「猫」を訳して。", "「gato」です。", "複数形は？"),
]


@pytest.mark.parametrize(("query", "answer", "follow_up"), FOLLOW_UPS)
async def test_model_gets_the_last_exchange_right_before_a_follow_up(
    query: str, answer: str, follow_up: str
) -> None:
    model = ScriptedModel(*(reply for _, reply in EARLIER), answer, "Done.")
    runner = Runner(Agent(name="a", model=model, memory="acc"))
    for text in (*(question for question, _ in EARLIER), query, follow_up):
        await runner.run(user_id="u", session_id="s", message=text)
    await runner.aclose()
    request = model.requests[-1]
    last = [(message.role, message.text) for message in request.messages[-3:]]
    assert last == [("user", query), ("assistant", answer), ("user", follow_up)]
