"""Rows of code: compiled, and held against their landmarks and the facts of last time."""
