"""Models that run on this machine, by name."""

from functools import lru_cache
from importlib.util import find_spec

from acc.domain.errors import InvalidInput
from acc.ports.outbound.model_ports import LanguageModelPort


def is_local_name(name: str) -> bool:
    """Tell whether a name is that of a local model; a name that is spoilt is refused."""
    if not name.startswith("local"):
        return False
    from acc.adapters.local_models.choice import is_local_name as is_local
    from acc.adapters.local_models.choice import parse_local

    if is_local(name):
        parse_local(name)
        return True
    return False


@lru_cache(maxsize=64)
def make_local_model(name: str) -> LanguageModelPort:
    """Return a local model by its name, made once; its server starts with the first question."""
    from acc.adapters.local_models.choice import HOW_TO_INSTALL, parse_local

    if find_spec("fcntl") is None:
        raise InvalidInput(f"{name}: local models need a system with POSIX file locks")
    choice = parse_local(name)
    if find_spec("httpx") is None:
        raise InvalidInput(f"{name} needs an HTTP client: {HOW_TO_INSTALL}")
    choice.file()
    from acc.adapters.local_models.model import LocalModel
    from acc.bootstrap.agents import threads

    return LocalModel(choice, threads=threads())
