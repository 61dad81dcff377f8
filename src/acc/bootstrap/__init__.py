"""The composition root: the only place that chooses adapters, imported when needed."""
