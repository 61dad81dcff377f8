"""A running summary, the usual way to bound the history of an agent."""

from collections import Counter
from collections.abc import Mapping
from math import log

from acc.application.memory.messages import part_text
from acc.domain.language import sentences, terms
from acc.domain.value_objects.memory import ConversationTurn, TurnSignal
from acc.ports.outbound.memory_ports import MemoryView
from acc.ports.outbound.model_ports import LanguageModelPort, ModelRequest, TokenCounterPort

INSTRUCTION = (
    "You maintain the running summary of a conversation. Return the new summary and nothing else: "
    "what the old summary says and what the new messages add or change. Keep names, numbers, "
    "dates, rules that still apply, and corrections. Write at most {budget} tokens."
)


class SummaryMemory:
    """Rewrites a summary after every turn; the agent sees the summary only.

    A model writes it. Without a model the summary consists of sentences of the user: if there is no
    room for all, those whose words are rare in the conversation are dropped.
    """

    def __init__(
        self, *, tokens: TokenCounterPort, budget: int, model: LanguageModelPort | None = None
    ) -> None:
        self._tokens = tokens
        self._budget = budget
        self._model = model
        self._summary = ""
        self._frequencies: Counter[str] = Counter()
        #: The turn that is not part of the summary yet.
        self._new: ConversationTurn | None = None

    async def view(self, signal: TurnSignal) -> MemoryView:
        """Add the last turn to the summary and return it."""
        if self._new is not None:
            turn, self._new = self._new, None
            self._summary = await self._updated(turn)
        return MemoryView(
            text=self._summary,
            tokens=self._tokens.count(self._summary) if self._summary else 0,
            # Without a model, the summary is computed again instead of restored.
            detail={"snapshot": self.snapshot()} if self._model is not None else {},
        )

    async def record(self, turn: ConversationTurn) -> None:
        """Keep the turn for the next update."""
        self._new = turn

    def snapshot(self) -> Mapping[str, object]:
        """Return the summary that the model wrote."""
        return {"summary": self._summary}

    def restore(self, snapshot: Mapping[str, object]) -> None:
        """Restore a state that `snapshot` returned."""
        self._summary = str(snapshot.get("summary", ""))
        self._new = None

    async def _updated(self, turn: ConversationTurn) -> str:
        texts = [
            (message.role, " ".join(map(part_text, message.parts)))
            for message in turn.messages
            if message.role != "tool" and not message.calls
        ]
        if self._model is None:
            stated = [text for role, text in texts if role == "user"]
            return self._extract([sentence for text in stated for sentence in sentences(text)])
        messages = "\n".join(f"{role}: {text}" for role, text in texts)
        response = await self._model.complete(
            ModelRequest.of(
                f"Old summary:\n{self._summary or 'none'}\n\nNew messages:\n{messages}",
                instruction=INSTRUCTION.format(budget=self._budget),
            )
        )
        return self._shortened(response.text.strip())

    def _extract(self, new: list[str]) -> str:
        for sentence in new:
            self._frequencies.update(terms(sentence))
        lines = list(dict.fromkeys((*self._summary.splitlines(), *new)))
        sizes = {line: self._tokens.count(line) + 1 for line in lines}
        excess = sum(sizes.values()) - self._budget
        for line in sorted(lines, key=self._salience):
            if excess <= 0:
                break
            excess -= sizes[line]
            lines.remove(line)
        return "\n".join(lines)

    def _salience(self, line: str) -> float:
        words = terms(line)
        if not words:
            return 0.0
        return sum(log(1 + self._frequencies[word]) for word in words) / len(words)

    def _shortened(self, text: str) -> str:
        """Return the first lines and sentences of a summary that fit into the budget."""
        while text and self._tokens.count(text) > self._budget:
            pieces = sentences(text)
            shorter = "\n".join(pieces[:-1]) if len(pieces) > 1 else ""
            text = shorter or text[: len(text) * 3 // 4]
        return text
