"""Modules that the fork server of evaluation workers imports once.

Workers that are forked afterwards share the memory of the token vocabulary.
"""

from acc.bootstrap.memory import token_counter

token_counter()
