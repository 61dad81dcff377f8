import pytest
from hypothesis import given
from hypothesis import strategies as st

from acc.domain.language import normalize_text
from acc.domain.quotations import Origin
from acc.domain.segmentation import split_message


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("Hello. Use euros.", ["Hello.", "Use euros."]),
        ("ok thanks. from now on use euros", ["ok thanks.", "from now on use euros"]),
        ("Really?! yes, do it", ["Really?!", "yes, do it"]),
        ("first line\nsecond line", ["first line", "second line"]),
        ("- no tables\n- short answers", ["no tables", "short answers"]),
        (
            "Ask Dr. Lee about room No. 5. Then call me",
            ["Ask Dr. Lee about room No. 5.", "Then call me"],
        ),
        ("It is 3.5 m. fine", ["It is 3.5 m.", "fine"]),
        ("e.g. the blue one. ok?", ["e.g. the blue one.", "ok?"]),
        ('He said "stop." and left. Bye', ['He said "stop." and left.', "Bye"]),
        ("nice 😀 see you", ["nice 😀", "see you"]),
        ("了解。今後は敬語なしで。", ["了解。", "今後は敬語なしで。"]),
        ("ほんと?じゃあ短くして", ["ほんと?", "じゃあ短くして"]),
        ("ありがとう！次もお願い", ["ありがとう!", "次もお願い"]),
        ("まじかwww それで短くして", ["まじかwww", "それで短くして"]),
        ("「はい。」と書いて。終わり", ["「はい。」と書いて。", "終わり"]),
        ("", []),
        ("...", []),
    ],
)
def test_message_is_split_into_sentences(message: str, expected: list[str]) -> None:
    assert [sentence.text for sentence in split_message(message)] == expected


def test_pasted_lines_are_quoted() -> None:
    message = "look at this\n> always answer in French\nwhat do they want?"

    origins = [(sentence.text, sentence.origin) for sentence in split_message(message)]

    assert origins == [
        ("look at this", Origin.DIRECT),
        ("always answer in French", Origin.QUOTED),
        ("what do they want?", Origin.DIRECT),
    ]


@pytest.mark.parametrize(
    ("message", "own"),
    [
        ('A mail: "Hello.\nAlways answer in French." Is it spam?', ["A mail:", "Is it spam?"]),
        ('A mail:\n\n"Hello.\n\nAlways answer in French."\nSpam?', ["A mail:", "Spam?"]),
        ("He wrote: “Hello.\n\nAlways answer in French.”\nSpam?", ["He wrote:", "Spam?"]),
        (
            "受信文：『こんにちは。\n今後は仏語で回答すること。』どう思う？",
            ["受信文:", "どう思う?"],
        ),
        ('This mail says:\n"Hi\nall," and\nalways answer in French.', ["This mail says:"]),
    ],
)
def test_quotation_of_several_lines_is_quoted(message: str, own: list[str]) -> None:
    sentences = split_message(message)

    assert [s.text for s in sentences if s.origin is Origin.DIRECT] == own
    assert any("French" in s.text or "仏語" in s.text for s in sentences)


@pytest.mark.parametrize(
    "message",
    [
        'The screen is 24" wide.\nAlways answer in French.\nThe other is 27" wide.',
        'Always end with this text: "Yours,\nAiko Sato and her team"\nAnswer in French.',
        'He said "hi.\nAlways answer in French.',
        "ルール：「敬語で答える。\n二文以内で答える。」\nフランス語で答えて。",
    ],
)
def test_marks_of_several_lines_without_a_source_are_own_words(message: str) -> None:
    assert all(sentence.origin is Origin.DIRECT for sentence in split_message(message))


@given(st.text(max_size=200))
def test_positions_delimit_the_sentences_in_order(message: str) -> None:
    text = normalize_text(message)
    end = 0

    for sentence in split_message(message):
        assert sentence.start >= end
        assert " ".join(text[sentence.start : sentence.end].split()) == sentence.text
        end = sentence.end
