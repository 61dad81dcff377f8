"""Measure everyday facts after 40 other turns, and follow-ups that need the last answer.

A fact is mentioned, 40 other turns follow, and a question asks for it: the view must have the
answer. A follow-up comes right after the answer that it refers to. Run:
python benchmarks/everyday.py [--budget N] [--turns N]
"""

import argparse
import asyncio
import random
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from instructions import FOLDER, MEMORIES, add_turn, content, plain

from acc.domain.value_objects.memory import TurnSignal

MATERIAL = FOLDER / "recall_material"


def filler_of(language: str, material: Mapping[str, Any]) -> Sequence[str]:
    """Return the other turns of a language."""
    if "filler" in material:
        return list(material["filler"])
    return (MATERIAL / f"{language}_filler.txt").read_text(encoding="utf-8").splitlines()


async def has_fact(
    name: str, fact: Sequence[str], filler: Sequence[str], budget: int, turns: int
) -> bool:
    text, question, key = fact
    draw = random.Random(text)  # noqa: S311 - not for security
    memory = MEMORIES[name](budget)
    await add_turn(memory, 1, text, "OK.")
    for turn in range(2, turns + 2):
        await add_turn(memory, turn, draw.choice(filler), "OK.")
    view = await memory.view(TurnSignal(turn_id=turns + 2, text=question))
    return plain(key) in content(view)


async def has_last_answer(
    name: str, follow_up: Sequence[str], filler: Sequence[str], budget: int
) -> bool:
    query, answer, next_query, key = follow_up
    memory = MEMORIES[name](budget)
    for turn, text in enumerate(filler[:10], start=1):
        await add_turn(memory, turn, text, "OK.")
    await add_turn(memory, 11, query, answer)
    view = await memory.view(TurnSignal(turn_id=12, text=next_query))
    return plain(key) in content(view)


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--budget", type=int, default=512, help="tokens of the view (512)")
    parser.add_argument("--turns", type=int, default=40, help="other turns (40)")
    options = parser.parse_args()
    languages = tomllib.loads((MATERIAL / "everyday.toml").read_text(encoding="utf-8"))
    for name in MEMORIES:
        print(f"{name}, {options.budget} tokens:")
        for language, material in languages.items():
            filler = filler_of(language, material)
            facts = [
                await has_fact(name, fact, filler, options.budget, options.turns)
                for fact in material["facts"]
            ]
            answers = [
                await has_last_answer(name, item, filler, options.budget)
                for item in material["follow_ups"]
            ]
            print(
                f"  {language:9} facts {sum(facts)} of {len(facts)},"
                f" follow-ups {sum(answers)} of {len(answers)}"
            )


if __name__ == "__main__":
    asyncio.run(main())
