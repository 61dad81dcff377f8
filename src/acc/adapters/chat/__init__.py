"""The wire of chat completions, which most servers of models speak: local ones, and imitators."""
