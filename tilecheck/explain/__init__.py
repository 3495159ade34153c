"""What a kernel does on a GPU, in words and numbers, without running it.

layout     tiles, grid, loops and traffic, read off the traced program
words      all of it as text
"""

from tilecheck.explain.layout import Layout, layout_of
from tilecheck.explain.words import explanation

__all__ = ["Layout", "explanation", "layout_of"]
