import pytest

from acc.domain.goals import states_goal


@pytest.mark.parametrize(
    ("sentence", "goal"),
    [
        ("The main goal is to restore checkout.", True),
        ("Help us plan the migration.", False),
        ("The goalkeeper is tired.", False),
        ("復旧を目指します。", True),
        ("目的は費用の削減です。", True),
        ("佐藤さんが担当です。", False),
    ],
)
def test_states_goal_detects_goal(sentence: str, goal: bool) -> None:
    assert states_goal(sentence) is goal
