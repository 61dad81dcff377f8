"""Training and evaluation of the embedded reader; not part of the wheel."""
