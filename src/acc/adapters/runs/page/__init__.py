"""The report page: its words, its sections, and the files it is made of."""
