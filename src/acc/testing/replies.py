"""What a stand-in for a provider is asked, and what it is told to reply."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

_PIECES = re.compile(r"[\x00-\x7f]+?(?:\s+|$|(?=[^\x00-\x7f]))|[^\x00-\x7f]{1,4}")


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A request as it came: the provider's wire, the model, the body, the headers, and the key."""

    wire: str
    model: str
    stream: bool
    body: Mapping[str, Any]
    key: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """Return the whole body as text, to look for words in."""
        return json.dumps(self.body, ensure_ascii=False)


@dataclass(frozen=True, kw_only=True)
class Reply:
    """What to answer: text, tool calls, a refusal or an error; and how badly.

    `cut` ends the connection after so many pieces of a stream, or in the middle of a whole answer;
    `stop` ends it politely there, as if all had been said, and `breaks` tells an error there.
    `garbled` sends what is no JSON. `delay` waits before the answer, `pace` before every piece.
    `thought` is thought first, and signed where the provider does so; `param` is what an error is
    about.
    """

    text: str = ""
    thought: str = ""
    calls: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    refusal: str = ""
    finish: str = ""
    status: int = 200
    message: str = "the stand-in was told to fail"
    kind: str = ""
    param: str | None = None
    retry_after: float | str | None = None
    cut: int | None = None
    stop: int | None = None
    breaks: int | None = None
    garbled: bool = False
    delay: float = 0.0
    pace: float = 0.0
    tokens: tuple[int, int, int] = (11, 7, 0)
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def pieces(self) -> list[str]:
        """Return the text as it is streamed: by words, or by a few characters of Japanese."""
        return _PIECES.findall(self.text)

    @property
    def ending(self) -> str:
        """Return why the answer ended: stop, length, content_filter or tool_calls."""
        return self.finish or ("tool_calls" if self.calls else "stop")


def say(text: str, **how: Any) -> Reply:
    """Return a reply with text."""
    return Reply(text=text, **how)


def use(name: str, /, **arguments: Any) -> Reply:
    """Return a reply that asks for a tool call."""
    return Reply(calls=((name, arguments),))


def fail(
    status: int,
    message: str = "",
    *,
    kind: str = "",
    param: str | None = None,
    retry_after: Any = None,
) -> Reply:
    """Return an error, as providers word them."""
    made = Reply(status=status, kind=kind, param=param, retry_after=retry_after)
    return replace(made, message=message) if message else made


def fitting(schema: Mapping[str, Any], root: Mapping[str, Any] | None = None) -> Any:
    """Return the plainest value that fits a JSON schema."""
    root = schema if root is None else root
    if "$ref" in schema:
        place: Any = root
        for step in str(schema["$ref"]).removeprefix("#/").split("/"):
            place = place[step]
        return fitting(place, root)
    for name in ("anyOf", "oneOf", "allOf"):
        if name in schema:
            return fitting(schema[name][0], root)
    if "const" in schema or "enum" in schema:
        return schema["const"] if "const" in schema else schema["enum"][0]
    kind = schema.get("type", "object" if "properties" in schema else "string")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "object":
        wanted = schema.get("properties", {})
        return {name: fitting(inner, root) for name, inner in wanted.items()}
    if kind == "array":
        return [fitting(schema.get("items", {}), root)] * int(schema.get("minItems", 0))
    plain: dict[str, Any] = {"boolean": True, "null": None}
    number = schema.get("minimum", 0)
    return plain.get(kind, number if kind in ("integer", "number") else "ok")
