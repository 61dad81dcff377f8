"""The delegator: it chooses, by rule, by intent or by a model, who does the work."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from acc.application.agents.base import BaseAgent, called, check_model, refuse_unless
from acc.application.agents.workflow import check_has_steps
from acc.application.runtime.context import RunContext
from acc.application.runtime.model_call import call_model
from acc.domain.errors import InvalidTree, NoRoute
from acc.domain.language import terms
from acc.domain.value_objects.content import NO_USAGE, Part, Usage
from acc.domain.value_objects.event import EventKind
from acc.ports.outbound.model_ports import LanguageModelPort, Prompt, PromptMessage

_LEAST_COVERED = 0.34
#: Hiragana, katakana, kanji; and what words of other scripts, and names, are made of.
_SCRIPTS = ("\u3041-\u309f", "\u30a1-\u30ff\uff66-\uff9f", "\u3005\u3400-\u9fff\uf900-\ufaff")
_OTHERS = rf"(?:-|[^\W{''.join(_SCRIPTS)}])"


@dataclass(kw_only=True, eq=False)
class RouterAgent(BaseAgent):
    """Delegates each message to one of its sub-agents.

    `by` is a rule, that is a function from the context to a sub-agent or its name; or "intent",
    which matches the message with the phrases in `intents` and with the descriptions; or "model",
    which lets `model` choose by the descriptions. `default` takes what nobody else does; without it
    that is an error that names the choices, unless by intent one of them alone shares a word with
    the message.
    """

    by: str | Callable[[RunContext], Any] = "intent"
    intents: Mapping[str, Sequence[str]] = field(default_factory=dict)
    model: str | LanguageModelPort = "embedded"
    default: str = ""
    _phrases: dict[str, list[frozenset[str]]] = field(init=False, repr=False)

    def check(self) -> None:
        """Refuse what cannot work."""
        check_has_steps(self)
        fits = isinstance(self.intents, Mapping) and all(map(_are_texts, self.intents.values()))
        refuse_unless(fits, self, "intents", "a mapping from names to lists of phrases")
        check_model(self, self.model)
        names = [agent.name for agent in self.sub_agents]
        for name in (*self.intents, *([self.default] if self.default else [])):
            if name not in names:
                raise InvalidTree(f"router {self.name!r}: {name!r} is none of {', '.join(names)}")
        if not callable(self.by) and self.by not in ("intent", "model"):
            raise InvalidTree(
                f'router {self.name!r}: by is "intent", "model" or a function from the context to '
                "a sub-agent's name"
            )
        for agent in self.sub_agents:
            chosen_by_words = not callable(self.by) and agent.name != self.default
            if chosen_by_words and not agent.description and not self.intents.get(agent.name):
                raise InvalidTree(
                    f"{agent.name!r} needs a description: router {self.name!r} chooses by it"
                )
        self._phrases = {
            agent.name: [
                terms(text)
                for text in (*self.intents.get(agent.name, ()), agent.description)
                if text
            ]
            for agent in self.sub_agents
        }

    async def run(self, ctx: RunContext) -> None:
        """Choose, put the choice on record, and delegate."""
        recorded = ctx.next_recorded()
        if recorded is not None and recorded.kind is EventKind.ROUTE:
            name, why = str(recorded.detail["to"]), str(recorded.detail["why"])
            ctx.run.budget.add_usage(recorded.usage or NO_USAGE)
            usage = None
        else:
            name, why, usage = await self._choose(ctx)
        await ctx.emit(EventKind.ROUTE, usage=usage, detail={"to": name, "why": why})
        target = next(agent for agent in self.sub_agents if agent.name == name)
        done = await ctx.run_agent(target)
        ctx.text = done.text
        ctx.escalated = done.escalated

    async def _choose(self, ctx: RunContext) -> tuple[str, str, Usage | None]:
        usage: Usage | None = None
        if callable(self.by):
            found = await called(self.by, ctx)
            name, why = found.name if isinstance(found, BaseAgent) else str(found), "rule"
        elif self.by == "intent":
            name, why = self._by_intent(ctx.message)
        else:
            name, usage = await self._by_model(ctx)
            why = "model"
        if name in self._phrases:
            return name, why, usage
        if self.default:
            return self.default, f"default ({why} gave {name!r})", usage
        known = ", ".join(self._phrases)
        raise NoRoute(
            f"router {self.name!r} found nobody for this message ({why} gave {name!r}); the choices"
            f" are {known}. Give it a default, or say more in intents and descriptions"
        )

    def _by_intent(self, message: str) -> tuple[str, str]:
        """Return who is described by the most of what the message says."""
        asked = terms(message)
        scores = {
            name: max((_likeness(asked, phrase) for phrase in phrases), default=0.0)
            for name, phrases in self._phrases.items()
        }
        best = max(scores, key=lambda name: scores[name])
        why = f"intent {scores[best]:.2f}"
        if scores[best] >= _LEAST_COVERED:
            return best, why
        return "" if self.default else self._only_one_described(asked), why

    def _only_one_described(self, asked: frozenset[str]) -> str:
        """Return who alone is described by any word of a message, for want of a default."""
        shared = {
            name: [term for phrase in phrases for term in asked & phrase]
            for name, phrases in self._phrases.items()
        }
        found = [name for name, terms in shared.items() if terms]
        # One kanji is mostly the stem of a verb, which says little of what a message is about.
        tells = len(found) == 1 and any(len(term) > 1 for term in shared[found[0]])
        return found[0] if tells else ""

    async def _by_model(self, ctx: RunContext) -> tuple[str, Usage]:
        listed = "\n".join(f"- {agent.name}: {agent.description}" for agent in self.sub_agents)
        names = list(self._phrases)
        said: tuple[PromptMessage, ...] = ()
        answer, spent = "", NO_USAGE
        for _ in range(ctx.config.max_repairs + 1):
            prompt = Prompt(
                query=ctx.message,
                instruction=f"Choose who answers. Reply with one name and nothing else.\n{listed}",
                messages=said,
                output_schema={"type": "string", "enum": names},
            )
            found, usage = await call_model(ctx, ctx.services.model(self.model), prompt)
            answer, spent = found.text.strip(), spent + usage
            named = names_in(answer, names)
            if len(named) == 1:
                return named[0], spent
            fault = f"Reply with exactly one of: {', '.join(names)}."
            said = (
                *said,
                PromptMessage(role="agent", author=self.name, parts=(Part(text=answer),)),
                PromptMessage(role="user", author="system", parts=(Part(text=fault),)),
            )
        return answer[:80], spent


def names_in(answer: str, names: Sequence[str]) -> list[str]:
    """Return which names stand in an answer as words of their own: as they are, or in any case."""
    found = _words_in(answer, names)
    if found:
        return [name for name in names if name in found]
    found = _words_in(answer.casefold(), [name.casefold() for name in names])
    return [name for name in names if name.casefold() in found]


def _words_in(text: str, names: Sequence[str]) -> set[str]:
    longest_first = sorted(names, key=len, reverse=True)
    words = (
        rf"(?<!{_kin(name[0])}){re.escape(name)}(?!{_kin(name[-1])})" for name in longest_first
    )
    return set(re.findall("|".join(words), text))


def _kin(char: str) -> str:
    """Return what continues a word there: in Japanese a word ends where the script changes."""
    scripts = (f"[{script}]" for script in _SCRIPTS)
    return next((script for script in scripts if re.match(script, char)), _OTHERS)


def _are_texts(given: object) -> bool:
    """Tell whether this is a list of texts, and not one text, which would mean its letters."""
    if isinstance(given, str) or not isinstance(given, Collection):
        return False
    return all(isinstance(text, str) for text in given)


def _likeness(asked: frozenset[str], phrase: frozenset[str]) -> float:
    """Return how much two sets of terms share, as a part of the smaller one."""
    smaller = min(len(asked), len(phrase))
    return len(asked & phrase) / smaller if smaller else 0.0
