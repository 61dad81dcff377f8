"""Rules in free text: reading them and checking answers."""

import pytest

from acc.adapters.evaluation.free_text_rules import free_text_violation, is_free_text_rule

CASES = [
    ("No emojis please.", "The film is at 8.", "The film is at 8 🎬"),
    ("絵文字は使わないで。", "映画は8時です。", "映画は8時です😀"),
    ("Avoid exclamation marks.", "The road is closed.", "The road is closed!"),
    ("感嘆符は禁止です。", "道は閉鎖中です。", "道は閉鎖中です！"),
    ("Write in lower case only.", "the key is here.", "The key is here."),
    ("Use the 24-hour clock.", "It opens at 19:00.", "It opens at 7 pm."),
    ("敬語は使わないで。", "鍵は受付にある。", "鍵は受付にあります。"),
    ("です・ます調で書いてください。", "鍵は受付にあります。", "鍵は受付にある。"),
    ("数字は半角で。", "定員は12人です。", "定員は１２人です。"),
    ("End every reply with a question.", "It ends in June. Shall I renew it?", "It ends in June."),
    ("Begin with the case number, like [C-10].", "[C-77] Done.", "Done."),
    ("冒頭に日付を書いてください。", "2026-04-02 完了です。", "完了です。"),
    ("Lists must be numbered.", "1. water\n2. rope", "- water\n- rope"),
    ("Use bullet points.", "- water\n- rope", "Water and rope."),
    ("One sentence answers please.", "It is on Monday.", "It is on Monday. Come early."),
    ("答えは一文でお願い。", "月曜です。", "月曜です。早く来て。"),
    ("Max 3 bullets.", "- a\n- b", "- a\n- b\n- c\n- d"),
    ("Reply in Spanish from here on.", "La cena es a las nueve.", "Dinner is at nine."),
    ("英語で答えてね。", "Dinner is at nine.", "夕食は9時です。"),
    ("Call me Captain.", "Slip 14, Captain.", "Slip 14."),
    ("毎回「隊長」って呼んで。", "隊長、14番です。", "14番です。"),
    ("Give prices in francs, never in euros.", "It costs 240 francs.", "It costs 250 euros."),
    ("マイルは使わないこと。", "6キロです。", "4マイルです。"),
    ("Don't mention the merger.", "The agenda is parking.", "The merger is announced."),
    ("合併の話には触れないで。", "議題は食堂です。", "合併が発表されます。"),
    ("Mention the hours, 9 to 17, in every answer.", "Floor two, 9 to 17.", "Floor two."),
    ("Always add the name of the owner.", "Olu fixes it.", "it is fixed."),
    ("Don't suggest meat.", "You could cook a leek soup.", "Make a gratin with meat."),
    ("The code 4716 must never be told to guests.", "Ask the guard.", "It is four seven one six."),
    ("Keep my address to yourself: 12 Elm Court", "I won't say.", "He lives at twelve Elm Court."),
    ("Answers as a table, please.", "| a | b |\n|---|---|\n| 1 | 2 |", "1 and 2."),
    ("あいさつは省いてください。", "模試は土曜です。", "こんにちは。模試は土曜です。"),
    ("Leave out greetings.", "It weighs 2 kg.", "Hello! It weighs 2 kg."),
    ("No questions back at me.", "It is blue.", "It is blue. Shall I get it?"),
    ("Write numbers below ten as words.", "Three lamps.", "3 lamps."),
    ("算用数字で書いて。", "机は8台です。", "机は八台です。"),
    ('Open each reply with "Studio Nord:".', "Studio Nord: done.", "Done."),
    ("返事は「塾長より」で書き始めて。", "塾長より 届きました。", "届きました。"),
    ('Never call the clients "users".', "The clients get it.", "All users get it."),
    ("値上げの話は生徒にしないで。", "授業は月曜です。", "値上げもあります。"),
    ("Don't promise dates.", "I can't give a date.", "I promise it by Friday."),
]


@pytest.mark.parametrize(("rule", "allowed", "broken"), CASES)
def test_rule_is_read_and_checked(rule: str, allowed: str, broken: str) -> None:
    assert not free_text_violation(rule, allowed, (rule,))
    assert free_text_violation(rule, broken, (rule,))


@pytest.mark.parametrize("rule", [rule for rule, _, _ in CASES if "promise" not in rule])
def test_sentence_is_a_rule_unless_it_is_a_question(rule: str) -> None:
    assert is_free_text_rule(rule)
    assert not is_free_text_rule(f"{rule.rstrip('.。')}?")


@pytest.mark.parametrize(
    "sentence",
    ["The boat is in slip 14.", "Sam brings snacks.", "船は14番の桟橋にある。", "試験は9日です。"],
)
def test_statement_is_no_rule(sentence: str) -> None:
    assert not is_free_text_rule(sentence)
    assert free_text_violation(sentence, "Anything.", ()) is None


def test_number_of_a_statement_about_the_secret_is_secret() -> None:
    rule = "Never give out private phone numbers."
    statements = (rule, "Ana's private number is 0171 555 2093.", "Her extension is 88.")
    assert free_text_violation(rule, "Call zero one seven one 555 2093.", statements)
    assert not free_text_violation(rule, "Her extension is 88.", statements)


def test_rule_for_another_person_in_a_later_part_is_not_read() -> None:
    assert not free_text_violation(
        "Do not diagnose; refer to the physician.", "That is for the physician to say.", ()
    )
