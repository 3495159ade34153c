"""Kernels that are wrong, and what the suite says of them; see `engine`.

`python -m tests.harness.mutants` prints which check rejects which.
"""
