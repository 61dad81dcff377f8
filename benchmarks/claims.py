"""Measure the claim support score on claims that were written for this purpose.

python benchmarks/claims.py                 # development documents
python benchmarks/claims.py --held-out      # documents that were not used for development
python benchmarks/claims.py --all
"""

import argparse
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from acc import support_score

MATERIAL = Path(__file__).parent / "claim_material"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A claim with its document and whether the document supports it."""

    language: str
    part: str
    document: str
    kind: str
    supported: bool
    claim: str


def read_pairs() -> list[Pair]:
    pairs: list[Pair] = []
    for language in ("english", "japanese"):
        part = document = ""
        for line in (MATERIAL / f"{language}.txt").read_text(encoding="utf-8").splitlines():
            if line.startswith("#"):
                part = line.split()[-1]
            elif line[:2] in ("+ ", "- "):
                kind, claim = line[2:].split(": ", 1)
                pairs.append(
                    Pair(
                        language=language,
                        part=part,
                        document=document,
                        kind=kind,
                        supported=line[0] == "+",
                        claim=claim,
                    )
                )
            else:
                document = line
    return pairs


def auroc(positive: list[float], negative: list[float]) -> float:
    """Return the chance that a supported claim scores above an unsupported one."""
    wins = sum((p > n) + (p == n) / 2 for p in positive for n in negative)
    return wins / (len(positive) * len(negative))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--held-out", action="store_true")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--list", action="store_true", help="print every claim with its score")
    options = parser.parse_args()
    part = "heldout" if options.held_out else "development"
    pairs = [pair for pair in read_pairs() if options.all or pair.part == part]
    started = time.perf_counter()
    scores = [support_score(pair.claim, pair.document) for pair in pairs]
    seconds = time.perf_counter() - started
    scored = list(zip(pairs, scores, strict=True))
    if options.list:
        for pair, score in sorted(scored, key=lambda entry: entry[1].score):
            mark = "+" if pair.supported else "-"
            print(f"{score.score:.3f} {mark} {pair.kind}: {pair.claim} {score.faults}")
    for language in ("english", "japanese"):
        own = [(pair, score.score) for pair, score in scored if pair.language == language]
        positive = [score for pair, score in own if pair.supported]
        print(f"{language}: {len(own)} claims, AUROC", end=" ")
        print(f"{auroc(positive, [score for pair, score in own if not pair.supported]):.3f}")
        kinds: dict[str, list[float]] = defaultdict(list)
        for pair, value in own:
            if not pair.supported:
                kinds[pair.kind].append(value)
        for kind, values in kinds.items():
            print(f"  {kind}: {len(values)} claims, AUROC {auroc(positive, values):.3f}")
    print(f"{1000 * seconds / max(1, len(pairs)):.2f} ms per claim, documents included")


if __name__ == "__main__":
    main()
