"""HTTP for the other adapters."""
