"""A conformance and regression suite for TileLang kernels: is it right, is it still as fast, and if not, why."""

__version__ = "0.1.0"
