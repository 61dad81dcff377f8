"""The base of the values that a turn makes by the dozen."""

import msgspec


# A value never comes to hold itself, so the garbage collector need not look for that: a server that
# keeps many values in memory spends a tenth less.
class Value(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A frozen value, made eight times as fast as a frozen dataclass; see docs/adr/0013.

    What it holds at its default is left out where it is written as JSON.
    """


def set_field(value: Value, name: str, held: object) -> None:
    """Set a field while the value is being made, in its `__post_init__`, and never later."""
    msgspec.structs.force_setattr(value, name, held)


#: Returns a value with other fields.
replace = msgspec.structs.replace
