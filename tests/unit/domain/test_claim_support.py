"""The support score of a claim against a document."""

import pytest

from acc import support_score
from acc.domain.claim_support import SupportDocument

REPORT = (
    "The gateway failed at 02:14 and returned errors for 15.4 % of requests. Priya Raman restarted "
    "two pods, which had no effect. Tomas Vrba renewed the certificate at 03:05. Halden Foods sued "
    "Norrfisk in May. The auditors did not approve the plan."
)
REPORT_JA = (
    "午前2時14分に要求の15.4%が失敗しました。中村さんは2台を再起動しました。森さんが証明書を更新しました。"
    "北斗食品は南洋水産に契約の解除を求めました。監査人は計画を承認していません。"
)


@pytest.mark.parametrize(
    ("document", "supported", "unsupported", "fault"),
    [
        (REPORT, "15.4% of requests failed.", "14.5% of requests failed.", "number"),
        (REPORT, "Raman restarted 2 pods.", "Raman restarted twelve pods.", "number"),
        (
            REPORT,
            "The certificate was renewed by Tomas Vrba.",
            "The certificate was renewed by Anna Blum.",
            "name",
        ),
        (
            REPORT,
            "Tomas Vrba renewed the certificate at 03:05.",
            "Priya Raman renewed the certificate at 03:05.",
            "name",
        ),
        (REPORT, "The auditors did not approve it.", "The auditors approved the plan.", "negation"),
        (
            REPORT,
            "In May Halden Foods sued Norrfisk.",
            "Norrfisk sued Halden Foods in May.",
            "role",
        ),
        (REPORT_JA, "要求の15.4 %が失敗した。", "要求の14.5%が失敗した。", "number"),
        (REPORT_JA, "二台を再起動した。", "十二台を再起動した。", "number"),
        (REPORT_JA, "証明書は森さんが更新した。", "証明書は山田さんが更新した。", "name"),
        (REPORT_JA, "監査人は計画を承認しなかった。", "監査人は計画を承認した。", "negation"),
        (
            REPORT_JA,
            "北斗食品が南洋水産に契約の解除を求めた。",
            "南洋水産が北斗食品に契約の解除を求めた。",
            "role",
        ),
    ],
)
def test_changed_claim_scores_less_and_has_a_fault(
    document: str, supported: str, unsupported: str, fault: str
) -> None:
    good, bad = support_score(supported, document), support_score(unsupported, document)
    assert good.faults == ()
    assert fault in bad.faults[0]
    assert bad.score < good.score


def test_score_of_a_copied_sentence_is_one() -> None:
    result = support_score("Tomas Vrba renewed the certificate at 03:05.", REPORT)
    assert result.score == 1.0
    assert result.evidence == ("Tomas Vrba renewed the certificate at 03:05.",)
    assert result.features.mean == 1.0


def test_absent_number_and_name_reduce_the_mean_of_the_features() -> None:
    result = support_score("Anna Blum and Priya Raman restarted 7 pods.", REPORT)
    assert result.score == pytest.approx(result.features.mean * 0.6 * 0.8, abs=1e-4)


@pytest.mark.parametrize("order", ["A is two days later than B.", "B is two days earlier than A."])
def test_opposite_comparison_with_exchanged_roles_agrees(order: str) -> None:
    document = "Alma left Finland two days later than Bruno."
    names = order.replace("A ", "Alma ").replace("A.", "Alma.").replace("B", "Bruno")
    assert support_score(names, document).faults == ()


def test_invented_clause_scores_less_than_paraphrase() -> None:
    paraphrase = support_score("Restarting pods did not have any effect.", REPORT)
    invented = support_score("Raman restarted pods and phoned angry customers abroad.", REPORT)
    assert invented.score < paraphrase.score


def test_claim_can_be_supported_by_several_sentences() -> None:
    result = support_score("Priya Raman restarted pods and Tomas Vrba the certificate.", REPORT)
    assert len(result.evidence) > 1
    assert result.features.coverage == 1.0


def test_sentences_and_text_give_the_same_score() -> None:
    listed = [f"{sentence}." for sentence in REPORT.rstrip(".").split(". ")]
    claim = "Norrfisk was sued in May."
    assert support_score(claim, listed).score == support_score(claim, REPORT).score


@pytest.mark.parametrize(
    "text", ["", "[" * 100_000, "a" * 100_000, "一" * 50_000, "five " * 20_000, "\ud800 x"]
)
def test_any_text_has_a_score(text: str) -> None:
    assert 0 <= support_score(text, REPORT).score <= 1
    assert 0 <= support_score("The lead is 3.", text).score < 0.6


def test_code_in_japanese_text_is_found() -> None:
    document = "決済は18時からpgw-3で動いている。"
    assert support_score("18時から決済はpgw-3で動いています。", document).faults == ()
    assert support_score("18時から決済はpgw-4で動いています。", document).faults


def test_letter_of_a_place_is_a_name() -> None:
    document = "The keynote is in hall B at 9:30."
    assert support_score("The keynote is in hall B.", document).faults == ()
    assert support_score("The keynote is in hall D.", document).faults


def test_ordinal_and_measure_are_no_names() -> None:
    assert support_score("The trip is on the 14th.", "The trip is on 14 May.").faults == ()
    assert support_score("餌は60gです。", "餌は60グラムです。").faults == ()


def test_synonym_and_light_word_support_a_claim_nearly_like_the_word() -> None:
    document = "The firm repaired the pump on Monday."
    same = support_score("The firm repaired the pump on Monday.", document).score
    synonym = support_score("The company fixed the pump on Monday.", document).score
    other = support_score("The school painted the pump on Monday.", document).score
    assert same > synonym > other + 0.05


def test_word_in_the_place_of_another_is_a_fault_in_a_conversation_only() -> None:
    texts, claim = ["Students pay half."], "Pensioners pay half."
    assert SupportDocument(texts).score(claim).faults == ()
    assert SupportDocument(texts, is_conversation=True).score(claim).faults == (
        "says pensioner, not student",
    )


def test_negation_in_other_words_is_no_fault_in_a_conversation() -> None:
    texts, claim = ["Two screws are missing."], "Two screws are not there."
    document = SupportDocument(["生花の持ち込みは禁止です。"], is_conversation=True)
    assert document.score("生花の持ち込みはできません。").faults == ()
    assert document.score("生花の持ち込みはできます。").faults == ()
    assert SupportDocument(texts, is_conversation=True).score(claim).faults == ()


@pytest.mark.parametrize("place", [0, 4_000, 8_000])
def test_evidence_anywhere_in_a_long_document_is_found(place: int) -> None:
    filler = [f"Depot {number} holds grain for region {number % 7}." for number in range(8_000)]
    filler.insert(place, "The keynote of Professor Achieng is in hall B at 9:30.")
    document = " ".join(filler)
    assert len(document) > 250_000
    found = support_score("Professor Achieng gives the keynote in hall B.", document)
    assert found.evidence[0] == "The keynote of Professor Achieng is in hall B at 9:30."
    assert found.score > 0.75
    assert support_score("Professor Achieng gives the keynote.", filler).score > 0.75
    assert support_score("Whales sing at night.", document).score < 0.5
