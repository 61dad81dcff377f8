"""Imported once before workers are forked, so that they share the token vocabulary's memory."""

from acc.bootstrap.memory import token_counter

token_counter()
