"""Cards are built from agents."""

from server_harness import CommandAgent

from acc import Agent, SequentialAgent, tool
from acc.application.a2a.card_builder import ExtendedCards, build_card
from acc.domain.value_objects.principal import Principal
from acc.testing import ScriptedModel

ANY = Principal(caller="any")


@tool
def look_up(city: str, days: int = 1) -> str:
    """Look up the weather."""
    return city


@tool(name="now", description="")
def now() -> str:
    return "now"


def tree() -> SequentialAgent:
    inner = Agent(
        name="weather-desk",
        description="Knows the weather. 天気",
        model=ScriptedModel("x"),
        tools=[look_up, now],
        output_schema=dict[str, int],
    )
    return SequentialAgent(name="office", sub_agents=[inner, CommandAgent(name="helper_one")])


def test_card_contains_skills_modes_and_interfaces() -> None:
    card = build_card(
        tree(), url="https://a.example/", version="1", requires_auth=False, can_push=False
    )
    assert card.description == "The agent office."
    assert {(i.url, i.binding, i.version) for i in card.interfaces} == {
        ("https://a.example/", "JSONRPC", "1.0"),
        ("https://a.example", "HTTP+JSON", "1.0"),
        ("https://a.example/", "JSONRPC", "0.3"),
        ("https://a.example", "HTTP+JSON", "0.3"),
    }
    assert [skill.id for skill in card.skills] == ["office", "weather-desk", "helper_one"]
    assert card.skills[1].name == "weather desk"
    assert card.skills[1].output_modes == ("application/json",)
    assert not card.security
    assert not card.security_schemes
    assert not card.extended_card
    assert not card.push_notifications


def test_card_contains_tools_of_the_root_as_skills() -> None:
    root = Agent(name="desk", description="A desk.", model=ScriptedModel("x"), tools=[look_up])
    card = build_card(root, url="https://a.example", version="1", requires_auth=True, can_push=True)
    assert [(skill.id, skill.description) for skill in card.skills] == [
        ("desk", "A desk."),
        ("desk.look_up", "Look up the weather."),
    ]
    assert card.security_schemes == {"bearer": {"type": "http", "scheme": "bearer"}}
    assert card.security == ({"bearer": ()},)
    assert card.extended_card


def test_extended_skills_cover_the_whole_tree() -> None:
    agent = tree()
    card = build_card(
        agent, url="https://a.example", version="1", requires_auth=True, can_push=True
    )
    cards = ExtendedCards(agent, card, sign=lambda card: card)
    skills = {skill.id: skill.description for skill in cards.card_for(ANY).skills}
    assert list(skills) == [
        "office",
        "weather-desk",
        "helper_one",
        "weather-desk.look_up",
        "weather-desk.now",
    ]
    assert skills["weather-desk.look_up"] == (
        "Look up the weather. Arguments: city (string), days (integer)."
    )
    assert skills["weather-desk.now"] == "The tool now of weather-desk."
