"""Asking a judge's model for a value of a schema, with a bounded number of repairs."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from acc.adapters.evaluation.judging.shapes import SCHEMAS
from acc.application.waiting.patience import Patience
from acc.domain.errors import AccError, ModelFailed, ModelOutputInvalid
from acc.domain.value_objects.event import text_part
from acc.ports.outbound.model_ports import LanguageModelPort, ModelAnswer, Prompt, PromptMessage

_FENCED = re.compile(r"^\s*```(?:json)?\s*\n(.*?)\n\s*```\s*$", re.S | re.I)
_LONGEST_ANSWER = 400_000
_LONGEST_SHOWN = 8_000

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A standing instruction, and what it is about this time."""

    instruction: str
    text: str
    name: str


class SchemaAsker:
    """Asks until an answer fits its schema and passes its check, or the repairs are used up.

    A call may take `timeout` seconds, without those for which the model's limits hold it back.
    """

    def __init__(
        self, model: LanguageModelPort, *, repairs: int = 2, timeout: float | None = 120.0
    ) -> None:
        self._model = model
        self._repairs = repairs
        self._timeout = timeout

    async def ask(
        self, question: Question, wanted: type[Found], check: Callable[[Found], str]
    ) -> Found:
        """Return a value for which `check` finds no fault, or raise saying what was wrong."""
        messages: tuple[PromptMessage, ...] = ()
        fault = ""
        for _ in range(1 + self._repairs):
            prompt = Prompt(
                query=question.text,
                instruction=question.instruction,
                messages=messages,
                output_schema=SCHEMAS[wanted],
            )
            text = (await self._complete(prompt)).text
            value, fault = _decoded(text, wanted)
            if value is not None:
                fault = check(value)
                if not fault:
                    return value
            messages = (
                *messages,
                PromptMessage(
                    role="agent",
                    author="judge",
                    parts=text_part(text[:_LONGEST_SHOWN] or "(empty)"),
                ),
                PromptMessage(
                    role="user",
                    author="system",
                    parts=text_part(
                        f"That cannot be used: {fault}. Answer again with the whole JSON object."
                    ),
                ),
            )
        raise ModelOutputInvalid(question.name, fault, 1 + self._repairs)

    async def _complete(self, prompt: Prompt) -> ModelAnswer:
        try:
            async with Patience(self._timeout):
                answer = await self._model.complete(prompt)
        except TimeoutError as error:
            raise ModelFailed(f"the judge's model gave no answer in {self._timeout} s") from error
        except AccError:
            raise
        except (Exception, SystemExit) as error:
            raise ModelFailed(f"the judge's model: {type(error).__name__}: {error}") from error
        if not isinstance(answer, ModelAnswer) or not isinstance(answer.text, str):
            raise ModelFailed("the judge's model returned no text")
        return answer


def _decoded(text: str, wanted: type[Found]) -> tuple[Found | None, str]:
    if len(text) > _LONGEST_ANSWER:
        return None, f"the answer is longer than {_LONGEST_ANSWER} characters"
    fenced = _FENCED.match(text)
    try:
        return msgspec.json.decode(fenced[1] if fenced else text, type=wanted), ""
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError) as error:
        return None, f"the answer must be one JSON object that fits the schema: {error}"
