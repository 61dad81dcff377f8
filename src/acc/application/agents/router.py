"""RouterAgent: delegates a message to a sub-agent by rule, by intent or by a model."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from acc.application.agents.base import BaseAgent, StandardAgent, check_parameters, require
from acc.application.agents.callbacks import maybe_await
from acc.application.agents.validation import check_model
from acc.application.agents.workflow import check_has_sub_agents
from acc.application.runtime.context import RunContext
from acc.application.runtime.model_call import call_model
from acc.application.runtime.type_variables import AnyDepsT, AnyOutputT, MaybeAwaitable
from acc.domain.errors import InvalidTree, NoRoute
from acc.domain.language import terms
from acc.domain.value_objects.content import CORRECTION_AUTHOR, NO_USAGE, ChatMessage, Part, Usage
from acc.domain.value_objects.event import EventKind
from acc.ports.outbound.model_ports import LanguageModelPort, ModelRequest

MIN_OVERLAP = 0.34
_MAX_INVALID_NAME_LENGTH = 80
#: Hiragana, katakana and kanji.
_JAPANESE_SCRIPTS = (
    "\u3041-\u309f",
    "\u30a1-\u30ff\uff66-\uff9f",
    "\u3005\u3400-\u9fff\uf900-\ufaff",
)
_OTHER_SCRIPTS = rf"(?:-|[^\W{''.join(_JAPANESE_SCRIPTS)}])"


@dataclass(kw_only=True, eq=False)
class RouterAgent(StandardAgent[AnyDepsT, AnyOutputT]):
    """Delegates each message to one of its sub-agents.

    `by` is a function from the context to a sub-agent or its name; or "intent", which compares the
    message with the phrases in `intents` and with the descriptions; or "model", which asks `model`
    to choose by the descriptions. `default` receives messages that match no sub-agent. Without a
    default such a message raises NoRoute, unless exactly one sub-agent shares a word with it.
    """

    sub_agents: "Sequence[BaseAgent[AnyDepsT, AnyOutputT]]" = field(default=())
    by: (
        Literal["intent", "model"]
        | Callable[[RunContext[AnyDepsT]], MaybeAwaitable[str | BaseAgent]]
    ) = "intent"
    intents: Mapping[str, Sequence[str]] = field(default_factory=dict)
    model: str | LanguageModelPort = "embedded"
    default: str = ""
    _phrases: dict[str, list[frozenset[str]]] = field(init=False, repr=False)

    def check(self) -> None:
        """Raise InvalidTree if an option is invalid."""
        check_has_sub_agents(self)
        is_valid = isinstance(self.intents, Mapping) and all(
            map(_is_list_of_texts, self.intents.values())
        )
        require(is_valid, self, "intents", "a mapping from names to lists of phrases")
        check_model(self, self.model)
        names = [agent.name for agent in self.sub_agents]
        for name in (*self.intents, *([self.default] if self.default else [])):
            if name not in names:
                raise InvalidTree(
                    f"router {self.name!r}: {name!r} is not a sub-agent; sub-agents: "
                    f"{', '.join(names)}"
                )
        is_valid = callable(self.by) or self.by in ("intent", "model")
        require(is_valid, self, "by", '"intent", "model" or a function of the context')
        if callable(self.by):
            check_parameters(self, "by", self.by, ("ctx",))
        for agent in self.sub_agents:
            needs_text = not callable(self.by) and agent.name != self.default
            if needs_text and not agent.description and not self.intents.get(agent.name):
                raise InvalidTree(
                    f"agent {agent.name!r} needs a description: router {self.name!r} chooses by it"
                )
        self._phrases = {
            agent.name: [
                terms(text)
                for text in (*self.intents.get(agent.name, ()), agent.description)
                if text
            ]
            for agent in self.sub_agents
        }

    async def _run(self, ctx: RunContext) -> None:
        """Choose a sub-agent, record the choice, and run the sub-agent."""
        recorded = ctx.next_recorded()
        if recorded is not None and recorded.kind is EventKind.ROUTE:
            name, reason = str(recorded.detail["to"]), str(recorded.detail["reason"])
            ctx.run.budget.add_usage(recorded.usage or NO_USAGE)
            usage = None
        else:
            name, reason, usage = await self._choose(ctx)
        await ctx.emit(EventKind.ROUTE, usage=usage, detail={"to": name, "reason": reason})
        target = next(agent for agent in self.sub_agents if agent.name == name)
        child = await ctx.run_agent(target)
        ctx.adopt(child)
        ctx.escalated = child.escalated

    async def _choose(self, ctx: RunContext) -> tuple[str, str, Usage | None]:
        """Return the name of a sub-agent, the reason, and the usage of a model."""
        usage: Usage | None = None
        if callable(self.by):
            choice = await maybe_await(self.by, ctx)
            name, reason = choice.name if isinstance(choice, BaseAgent) else str(choice), "rule"
        elif self.by == "intent":
            name, reason = self._choose_by_intent(ctx.message)
        else:
            name, usage = await self._choose_by_model(ctx)
            reason = "model"
        if name in self._phrases:
            return name, reason, usage
        if self.default:
            return self.default, f"default ({reason} gave {name!r})", usage
        raise NoRoute(
            f"router {self.name!r} found no sub-agent for this message ({reason} gave {name!r}); "
            f"sub-agents: {', '.join(self._phrases)}. Set default=, or extend intents and "
            "descriptions"
        )

    def _choose_by_intent(self, message: str) -> tuple[str, str]:
        """Return the sub-agent whose phrases overlap most with the message."""
        message_terms = terms(message)
        scores = {
            name: max((_overlap(message_terms, phrase) for phrase in phrases), default=0.0)
            for name, phrases in self._phrases.items()
        }
        best = max(scores, key=lambda name: scores[name])
        reason = f"intent {scores[best]:.2f}"
        if scores[best] >= MIN_OVERLAP:
            return best, reason
        return "" if self.default else self._only_match(message_terms), reason

    def _only_match(self, message_terms: frozenset[str]) -> str:
        """Return the sub-agent that alone shares a word with the message, if there is one."""
        shared = {
            name: [term for phrase in phrases for term in message_terms & phrase]
            for name, phrases in self._phrases.items()
        }
        matches = [name for name, terms in shared.items() if terms]
        # A single kanji is usually the stem of a verb and says little about the topic.
        if len(matches) == 1 and any(len(term) > 1 for term in shared[matches[0]]):
            return matches[0]
        return ""

    async def _choose_by_model(self, ctx: RunContext) -> tuple[str, Usage]:
        choices = "\n".join(f"- {agent.name}: {agent.description}" for agent in self.sub_agents)
        names = list(self._phrases)
        messages: tuple[ChatMessage, ...] = ()
        answer, total = "", NO_USAGE
        for _ in range(ctx.config.max_repairs + 1):
            prompt = ModelRequest.of(
                query=ctx.message,
                instruction=f"Choose who answers. Reply with one name and nothing else.\n{choices}",
                following=messages,
                output_schema={"type": "string", "enum": names},
            )
            response, usage = await call_model(ctx, ctx.services.model(self.model), prompt)
            answer, total = response.text.strip(), total + usage
            mentioned = find_names(answer, names)
            if len(mentioned) == 1:
                return mentioned[0], total
            correction = f"Reply with exactly one of: {', '.join(names)}."
            messages = (
                *messages,
                ChatMessage(role="assistant", author=self.name, parts=(Part(text=answer),)),
                ChatMessage(role="user", author=CORRECTION_AUTHOR, parts=(Part(text=correction),)),
            )
        return answer[:_MAX_INVALID_NAME_LENGTH], total


def find_names(answer: str, names: Sequence[str]) -> list[str]:
    """Return the names that occur as whole words in a text, ignoring case if necessary."""
    matches = _find_words(answer, names)
    if matches:
        return [name for name in names if name in matches]
    matches = _find_words(answer.casefold(), [name.casefold() for name in names])
    return [name for name in names if name.casefold() in matches]


def _find_words(text: str, words: Sequence[str]) -> set[str]:
    longest_first = sorted(words, key=len, reverse=True)
    patterns = (
        rf"(?<!{_same_script(word[0])}){re.escape(word)}(?!{_same_script(word[-1])})"
        for word in longest_first
    )
    return set(re.findall("|".join(patterns), text))


def _same_script(character: str) -> str:
    """Return a pattern of characters that continue a word; Japanese words end with the script."""
    scripts = (f"[{script}]" for script in _JAPANESE_SCRIPTS)
    return next((script for script in scripts if re.match(script, character)), _OTHER_SCRIPTS)


def _is_list_of_texts(value: object) -> bool:
    """Return True for a collection of texts; a single text is not a list of its characters."""
    if isinstance(value, str) or not isinstance(value, Collection):
        return False
    return all(isinstance(text, str) for text in value)


def _overlap(message_terms: frozenset[str], phrase: frozenset[str]) -> float:
    """Return the share of common terms, relative to the smaller set."""
    smaller = min(len(message_terms), len(phrase))
    return len(message_terms & phrase) / smaller if smaller else 0.0
