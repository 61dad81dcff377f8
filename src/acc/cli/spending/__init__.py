"""What asking models costs, as people are shown it."""

#: The exit status where all that may be spent is spent.
OUT_OF_MONEY = 4
