"""Judges and models of user code, by `MODULE:NAME`."""

from acc.adapters.system.object_loader import load_object
from acc.domain.errors import InvalidInput


def load_judge(reference: str) -> object:
    """Return the judge or the model that `MODULE:NAME` refers to.

    Classes, and functions that create a judge or a model, are called each time.
    """
    target = load_object(reference)
    is_instance = not isinstance(target, type) and (is_judge(target) or is_model(target))
    if callable(target) and not is_instance:
        try:
            target = target()
        except (Exception, SystemExit) as error:
            raise InvalidInput(
                f"cannot create {reference}: {type(error).__name__}: {error}"
            ) from error
    if not is_judge(target) and not is_model(target):
        raise InvalidInput(
            f"{reference} must be a judge with evaluate_turn or a model with complete"
        )
    return target


def is_judge(target: object) -> bool:
    """Return True if an object has the method of a judge."""
    return callable(getattr(target, "evaluate_turn", None))


def is_model(target: object) -> bool:
    """Return True if an object has the method of a model and is not a judge."""
    return callable(getattr(target, "complete", None)) and not is_judge(target)
