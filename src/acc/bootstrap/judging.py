"""Which models are not to be trusted with judging."""

import os

_UNSURE = (
    "nobody has measured whether {name} can judge; hold it against labelled examples first, then "
    "insist"
)


def reason_not_to_judge(model_name: str) -> str | None:
    """Return why a model should not judge unless its user insists, or None if it may."""
    for name in model_name.split("|"):
        reason = _reason(name.strip())
        if reason is not None:
            return reason
    return None


def _reason(name: str) -> str | None:
    if name.startswith("env:"):
        held = os.environ.get(name.removeprefix("env:"), "").strip()
        return reason_not_to_judge(held) if held and not held.startswith("env:") else None
    bare = name.partition("?")[0]
    if bare == "local":
        return (
            "the small local model has 135 million parameters and judges no better than chance; it "
            "is there to try things out"
        )
    if bare.startswith("local:"):
        return _UNSURE.format(name=bare)
    if bare == "embedded":
        return "the embedded model is a fixed set of rules that copies from its prompt"
    return None
