"""Rows of latency: timed, and held against a baseline."""
