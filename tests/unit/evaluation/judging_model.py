"""A model that judges by fixed rules, and reads nothing but its prompt."""

import json
import re
from typing import Any

from acc.ports.outbound.model_ports import ModelRequest, ModelResponse

_PART = re.compile(r"<<(\w{20}) ([^>\n]+)>>\n(.*?)\n<<\1 end>>", re.S)


def parts_of(prompt: ModelRequest) -> dict[str, str]:
    """Return the fenced parts of a judge's prompt by title."""
    return {title: text for _, title, text in _PART.findall(prompt.query)}


def wants(prompt: ModelRequest) -> str:
    """Return which of the judge's questions a prompt asks."""
    assert prompt.output_schema is not None
    properties = prompt.output_schema["properties"]
    if "lifted" in properties:
        return "read"
    if "scores" in properties:
        return "score"
    if "query" in properties:
        return "drive"
    claim = properties["claims"]["items"]["properties"]
    return "audit" if "claim" in claim else "vote"


def sentences(text: str) -> list[str]:
    pieces = re.split(r"(?<=[.?!])\s+|(?<=[。？])|\n", text)
    return [piece.strip() for piece in pieces if piece.strip()]


class JudgingModel:
    """Treats every sentence of a query as a fact, and a stated sentence as supported."""

    def __init__(self, *, points: float = 7.0) -> None:
        self.requests: list[ModelRequest] = []
        self.points = points

    async def complete(self, prompt: ModelRequest) -> ModelResponse:
        self.requests.append(prompt)
        reply = getattr(self, wants(prompt))(prompt, parts_of(prompt))
        return ModelResponse(text=json.dumps(reply, ensure_ascii=False))

    def read(self, prompt: ModelRequest, parts: dict[str, str]) -> dict[str, Any]:
        statement = [
            sentence
            for title, text in parts.items()
            if "query" in title
            for sentence in sentences(text)
            if not sentence.endswith(("?", "？"))
        ]
        rules = [sentence for sentence in statement if sentence.startswith(("Always", "Never"))]
        return {
            "facts": [{"text": s, "quote": s} for s in statement if s not in rules],
            "superseded": [],
            "constraints": [{"text": s, "quote": s, "once": False} for s in rules],
            "lifted": [],
        }

    def audit(self, prompt: ModelRequest, parts: dict[str, str]) -> dict[str, Any]:
        return {
            "claims": [
                {"claim": statement, "excerpt": statement, **self.verdict(statement, parts)}
                for statement in sentences(parts["answer"])
            ],
            "constraints": self.rules(parts),
        }

    def vote(self, prompt: ModelRequest, parts: dict[str, str]) -> dict[str, Any]:
        listed = re.findall(r"^(\d+): (.*)$", parts.get("claims", ""), re.M)
        return {
            "claims": [{"number": int(n), **self.verdict(text, parts)} for n, text in listed],
            "constraints": self.rules(parts),
        }

    def verdict(self, statement: str, parts: dict[str, str]) -> dict[str, str]:
        known = statement in parts["canonical memory"] or statement in parts["query"]
        if known:
            return {"verdict": "supported", "quote": statement, "reason": "said"}
        return {"verdict": "unsupported", "quote": "", "reason": "not stated"}

    def rules(self, parts: dict[str, str]) -> list[dict[str, str]]:
        memory = parts["canonical memory"].partition("Constraints:")[2].partition("Superseded:")[0]
        names = re.findall(r"^(C[\d.]+)\b", memory, re.M)
        return [{"id": name, "verdict": "kept", "reason": "kept"} for name in names]

    def score(self, prompt: ModelRequest, parts: dict[str, str]) -> dict[str, Any]:
        names = ("relevance", "answer_quality", "instruction_following", "coherence")
        return {
            "scores": [
                {"answer": title, **dict.fromkeys(names, self.points)}
                for title in parts
                if title not in ("canonical memory", "query")
            ]
        }

    def drive(self, prompt: ModelRequest, parts: dict[str, str]) -> dict[str, Any]:
        turn = re.search(r"Turn (\d+) of", prompt.query)
        assert turn is not None
        if "Language: Japanese" in prompt.query:
            return {"query": f"{turn[1]}番目の在庫は{turn[1]}箱です。"}
        return {"query": f"Depot number {turn[1]} holds {turn[1]} crates."}


class Bending(JudgingModel):
    """Changes some answers of a judging model."""

    def __init__(self, which: str, *bends: Any) -> None:
        super().__init__()
        self.which = which
        self.bends = list(bends)

    async def complete(self, prompt: ModelRequest) -> ModelResponse:
        answer = await super().complete(prompt)
        if wants(prompt) != self.which or not self.bends:
            return answer
        bend = self.bends.pop(0) if len(self.bends) > 1 else self.bends[0]
        if isinstance(bend, BaseException):
            raise bend
        if isinstance(bend, str):
            return ModelResponse(text=bend)
        reply = json.loads(answer.text)
        bend(reply)
        return ModelResponse(text=json.dumps(reply, ensure_ascii=False))


class BreaksOnNesting(JudgingModel):
    """Fails on every prompt that contains deeply nested brackets."""

    async def complete(self, prompt: ModelRequest) -> ModelResponse:
        if "[[[[" in prompt.query:
            raise RecursionError("maximum recursion depth exceeded")
        return await super().complete(prompt)
