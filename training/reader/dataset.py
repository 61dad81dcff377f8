"""Labelled sentences and dialogues of the writers, and public sentences.

The writers' data is in `data/<writer>/`. Public data is optional and read from another folder, in
the layout of its repositories; docs/reader.md lists sources and licences.
"""

import ast
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from training.reader.frames import framed_instructions

from acc.adapters.memory.reader_weights import ACTS
from acc.domain.language import sentences
from acc.domain.value_objects.reading import Act

DATA = Path(__file__).parent / "data"
#: Writers whose texts are never used for training or tuning.
HELD_OUT = ("e12", "e15", "e17", "e21", "e24", "j12", "j13", "j15", "j16", "j17")
#: Sentences that are drawn from a file of Topical-Chat.
TOPICAL_CHAT_SENTENCES = 6_000
#: Sentences that are drawn from the chitchat dataset; those of every second conversation.
CHITCHAT_SENTENCES = 40_000
CHITCHAT_WEIGHT = 0.6
#: The classifiers of the linking model see fewer chat sentences. With as many as the final
#: classifier, more chat sentences were read as rules; see docs/reader.md.
LINK_CHAT_SENTENCES = 4_000
#: Sentences of other chats that the linking model sees as sentences that refer to nothing.
UNUSED_CHAT_SENTENCES = 4_000
PUBLIC_WEIGHT = 0.3
FRAME_WEIGHT = 0.5
_MAX_PUBLIC_LENGTH = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A sentence with the acts that its label allows, and its weight in training."""

    text: str
    acts: frozenset[Act]
    weight: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A sentence of a dialogue; `target` is the index of the line that it refers to."""

    text: str
    act: Act
    turn: int
    target: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Writer:
    """The texts of one writer."""

    name: str
    sentences: tuple[tuple[str, Act], ...]
    dialogues: tuple[tuple[Line, ...], ...]

    @property
    def language(self) -> str:
        """Return "e" for English and "j" for Japanese."""
        return self.name[0]

    def items(self) -> list[tuple[str, Act]]:
        """Return all sentences with their acts."""
        lines = [(line.text, line.act) for dialogue in self.dialogues for line in dialogue]
        return [*self.sentences, *lines]


def read_writers(folder: Path = DATA, *, names: Iterable[str] | None = None) -> list[Writer]:
    """Return the writers of a folder without the held-out ones, or those with these names."""
    wanted = set(names) if names is not None else None
    return [
        read_writer(path)
        for path in sorted(folder.iterdir())
        if path.is_dir()
        and (path.name in wanted if wanted is not None else path.name not in HELD_OUT)
    ]


def read_writer(folder: Path) -> Writer:
    """Return the texts of the writer in a folder."""
    rows = [
        line.split("\t", 1)
        for line in (folder / "sentences.tsv").read_text(encoding="utf-8").splitlines()
        if line.strip()
    ]
    dialogues = (folder / "dialogues.jsonl").read_text(encoding="utf-8").splitlines()
    return Writer(
        name=folder.name,
        sentences=tuple((text.strip(), Act(label.strip())) for label, text in rows),
        dialogues=tuple(_read_dialogue(json.loads(line)) for line in dialogues if line.strip()),
    )


def _read_dialogue(data: dict[str, list[list[object]]]) -> tuple[Line, ...]:
    positions: dict[tuple[object, object], int] = {}
    targets = {(ref[0], ref[1]): (ref[2], ref[3]) for ref in data["refs"]}
    lines: list[Line] = []
    for turn, (texts, labels) in enumerate(zip(data["turns"], data["labels"], strict=True)):
        for number, (text, label) in enumerate(zip(texts, labels, strict=True)):
            positions[turn, number] = len(lines)
            target = targets.get((turn, number))
            lines.append(
                Line(
                    text=str(text),
                    act=Act(str(label)),
                    turn=turn,
                    target=None if target is None else positions[target],
                )
            )
    return tuple(lines)


def read_public(folder: Path | None, language: str, *, for_links: bool = False) -> list[Example]:
    """Return the public sentences of a language that are present in a folder.

    `for_links` selects fewer sentences of chats, for the classifiers of the linking model.
    """
    if folder is None:
        return []
    if language != "e":
        return [*_jfbench(folder), *_m_ifeval(folder)]
    if for_links:
        topical = _topical_chat(folder, LINK_CHAT_SENTENCES // 2)
        chat = _chitchat(folder, LINK_CHAT_SENTENCES, PUBLIC_WEIGHT)
    else:
        topical = _topical_chat(folder, TOPICAL_CHAT_SENTENCES)
        chat = _chitchat(folder, CHITCHAT_SENTENCES, CHITCHAT_WEIGHT)
    return [*topical, *chat, *_follow_bench(folder)]


def small_talk(folder: Path, files: Sequence[str]) -> list[str]:
    """Return the sentences of files of Topical-Chat, in a fixed random order."""
    found: list[str] = []
    for name in files:
        path = folder / "Topical-Chat" / "conversations" / name
        if not path.exists():
            continue
        talks = json.loads(path.read_text(encoding="utf-8"))
        texts = [
            sentence
            for talk in sorted(talks)
            for message in talks[talk]["content"]
            for sentence in sentences(message["message"])
        ]
        Random(0).shuffle(texts)  # noqa: S311 not for security
        found.extend(texts)
    return found


def chitchat(folder: Path, *, first: int) -> list[str]:
    """Return sentences of every second conversation of the chitchat dataset, in a fixed order."""
    path = folder / "chitchat-dataset" / "chitchat_dataset" / "dataset.json"
    if not path.exists():
        return []
    talks = json.loads(path.read_text(encoding="utf-8"))
    texts = [
        sentence
        for talk in sorted(talks)[first::2]
        for messages in talks[talk]["messages"]
        for message in messages
        for sentence in sentences(message["text"])
        if len(sentence) < _MAX_PUBLIC_LENGTH
    ]
    Random(0).shuffle(texts)  # noqa: S311 not for security
    return texts


def _chitchat(folder: Path, count: int, weight: float) -> list[Example]:
    acts = frozenset({Act.OTHER, Act.STATE})
    texts = chitchat(folder, first=0)[:count]
    return [Example(text=text, acts=acts, weight=weight) for text in texts]


def unused_chat(folder: Path | None, language: str) -> list[str]:
    """Return sentences of the same conversations that `read_public` does not return."""
    if folder is None or language != "e":
        return []
    unused = chitchat(folder, first=0)[CHITCHAT_SENTENCES:]
    return unused[:UNUSED_CHAT_SENTENCES]


def _topical_chat(folder: Path, count: int) -> list[Example]:
    # People who chat set no rules; whether a sentence states a fact is not labelled.
    acts = frozenset({Act.OTHER, Act.STATE})
    return [
        Example(text=text, acts=acts, weight=PUBLIC_WEIGHT)
        for name in ("valid_freq.json", "valid_rare.json")
        for text in small_talk(folder, [name])[:count]
    ]


def _follow_bench(folder: Path) -> list[Example]:
    """Return tasks and the constraints that are added to them, one per level."""
    tasks: set[str] = set()
    constraints: set[str] = set()
    for path in sorted((folder / "FollowBench" / "data").glob("*.json")):
        known: dict[object, set[str]] = {}
        items = json.loads(path.read_text(encoding="utf-8"))
        for item in sorted(items, key=lambda item: (item["example_id"], item["level"])):
            found = [s for s in sentences(item["instruction"]) if len(s) < _MAX_PUBLIC_LENGTH]
            earlier = known.setdefault(item["example_id"], set())
            if item["level"] == 0:
                tasks.update(found)
            else:
                constraints.update(s for s in found[-1:] if s not in earlier)
            earlier.update(found)
    once_or_more = frozenset({Act.ONCE, Act.SET, Act.OTHER})
    no_rule = frozenset({Act.ONCE, Act.OTHER, Act.STATE})
    return [
        *(Example(text=t, acts=no_rule, weight=0.3) for t in sorted(tasks)),
        *(Example(text=t, acts=once_or_more, weight=0.3) for t in sorted(constraints - tasks)),
    ]


def _jfbench(folder: Path) -> list[Example]:
    """Return the wordings of constraints, which are templates in the source code."""
    found: set[str] = set()
    for path in sorted((folder / "jfbench" / "src" / "jfbench" / "constraints").rglob("*.py")):
        if any(part.startswith("ifbench") for part in path.parts):
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        functions = (
            node
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef) and node.name == "instructions"
        )
        for function in functions:
            for node in ast.walk(function):
                if isinstance(node, ast.List):
                    found.update(text for item in node.elts for text in _template(item))
    acts = frozenset({Act.ONCE, Act.SET})
    return [Example(text=text, acts=acts, weight=0.2) for text in sorted(found)]


def _template(node: ast.expr) -> tuple[str, ...]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return sentences(node.value)
    if isinstance(node, ast.JoinedStr):
        parts = (str(v.value) if isinstance(v, ast.Constant) else "3" for v in node.values)
        return sentences("".join(parts))
    return ()


def _m_ifeval(folder: Path) -> list[Example]:
    path = folder / "M-IFEval" / "data" / "ja_input_data.jsonl"
    if not path.exists():
        return []
    tasks: set[str] = set()
    rest: set[str] = set()
    for line in path.read_text(encoding="utf-8").splitlines():
        first, *others = sentences(json.loads(line)["prompt"])
        tasks.add(first)
        rest.update(text for text in others if len(text) < _MAX_PUBLIC_LENGTH)
    task = frozenset({Act.ONCE, Act.OTHER})
    constraint = frozenset({Act.ONCE, Act.SET, Act.OTHER})
    return [
        *(Example(text=text, acts=task, weight=0.2) for text in sorted(tasks)),
        *(Example(text=text, acts=constraint, weight=0.2) for text in sorted(rest - tasks)),
    ]


def own_examples(writers: Iterable[Writer]) -> list[Example]:
    """Return the sentences of writers of one language, and its framed instructions."""
    known = list(writers)
    framed = framed_instructions(known[0].language) if known else []
    return [
        *(
            Example(text=text, acts=frozenset({act}))
            for writer in known
            for text, act in writer.items()
        ),
        *(Example(text=text, acts=frozenset({act}), weight=FRAME_WEIGHT) for text, act in framed),
    ]


def act_mask(acts: frozenset[Act]) -> list[float]:
    """Return 1 for each allowed act, in the order of the columns."""
    return [float(act in acts) for act in ACTS]
