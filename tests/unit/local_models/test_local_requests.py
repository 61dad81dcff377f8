"""What is sent to a local server, and what it says when it cannot."""

import msgspec

from acc import Prompt
from acc.adapters.local_models.choice import LocalChoice
from acc.adapters.local_models.model import told
from acc.adapters.local_models.requests import bounded, request_for
from acc.ports.outbound.model_ports import ToolSpec


def test_tools_go_along_only_where_they_can_be_called() -> None:
    prompt = Prompt(query="Hi", tools=(ToolSpec(name="weather", description="Tell it."),))
    assert "tools" not in request_for(prompt, LocalChoice(), tools=False)
    sent = request_for(prompt, LocalChoice(), tools=True)["tools"]
    assert sent[0]["function"]["name"] == "weather"


class Note(msgspec.Struct):
    title: str
    tags: list[str]
    lines: dict[str, str]
    kind: str | None = None


def test_texts_and_lists_of_a_schema_come_to_an_end() -> None:
    found = bounded(msgspec.json.schema(Note))["$defs"]["Note"]["properties"]
    assert found["title"]["maxLength"] == 240
    assert found["tags"]["maxItems"] == 8
    assert found["tags"]["items"]["maxLength"] == 240
    assert found["lines"]["additionalProperties"]["maxLength"] == 240
    assert found["kind"]["anyOf"][0]["maxLength"] == 240
    assert bounded({"type": "string", "maxLength": 9}) == {"type": "string", "maxLength": 9}
    assert bounded({"type": "array", "minItems": 20})["maxItems"] == 20


def test_what_the_server_says_is_told() -> None:
    assert told({"message": "no more room"}) == "no more room"
    assert told("odd") == "odd"
    assert told(None) == "the local server refused the request"
