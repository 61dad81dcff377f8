"""Measure the evidence in complete views: ACC memory next to BM25 and the newest messages.

The conversations and questions are those of `benchmarks/memory.py`, the held-out part. Two messages
are a turn: the user's and the answer. A view of ACC memory also has rules, facts and the last
exchange within the same number of tokens, so it has less room for evidence than plain BM25.
Run: python benchmarks/view_recall.py [--memories acc,acc-multilingual,bm25,last-n]
"""

import argparse
import asyncio
import statistics
from collections.abc import Callable, Mapping
from functools import partial

from instructions import MEMORIES, add_turn, content, plain
from memory import BUDGETS, Conversation, conversations

from acc.bootstrap.memory import acc_memory, make_embedder
from acc.domain.value_objects.memory import TurnSignal
from acc.ports.outbound.memory_ports import MemoryPort
from acc.ports.outbound.model_ports import EmbedderPort

LANGUAGES = {
    "English": ["english"],
    "Japanese": ["japanese"],
    "mixed": ["english", "japanese"],
}
ENCODERS = {"acc-multilingual": "multilingual", "acc-static": "static"}


def factories(names: str) -> Mapping[str, Callable[[int], MemoryPort]]:
    """Return the memories with these names; those with an encoder share it."""
    found: dict[str, Callable[[int], MemoryPort]] = {}
    for name in names.split(","):
        if name in ENCODERS:
            found[name] = partial(with_encoder, embedder=make_embedder(ENCODERS[name]))
        else:
            found[name] = MEMORIES[name]
    return found


def with_encoder(budget: int, *, embedder: EmbedderPort | None) -> MemoryPort:
    return acc_memory(budget=budget, embeddings=embedder or "none")


async def evidence_shares(memory: MemoryPort, case: Conversation) -> list[float]:
    """Return the share of the evidence in the view of each question."""
    messages = [*case.messages, "OK."]
    for turn in range(len(messages) // 2):
        await add_turn(memory, turn + 1, messages[2 * turn], messages[2 * turn + 1])
    shares: list[float] = []
    for question, evidence in case.questions:
        signal = TurnSignal(turn_id=len(case.messages) + 1, text=question)
        shown = content(await memory.view(signal))
        found = [plain(case.messages[position]) in shown for position in evidence]
        shares.append(statistics.mean(found))
    return shares


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--memories", default="acc,acc-multilingual,bm25,last-n")
    memories = factories(parser.parse_args().memories)
    print(f"evidence in views of {', '.join(map(str, BUDGETS))} tokens:")
    for language, names in LANGUAGES.items():
        cases = conversations(names, "heldout")
        for label, make in memories.items():
            means = []
            for budget in BUDGETS:
                shares = [await evidence_shares(make(budget), case) for case in cases]
                means.append(statistics.mean(share for part in shares for share in part))
            print(f"  {language:9}{label:17}", *(f"{mean:6.3f}" for mean in means), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
