"""Checks TileLang kernels: is every one right, is it still as fast, and if not, why."""

__version__ = "0.1.0"
