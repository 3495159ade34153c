"""What a kernel does on a GPU, in words and numbers, without running it.

layout     tiles, grid, loops and traffic, read off the traced program
occupancy  how many blocks a multiprocessor holds, and what limits them
words      all of it as text
"""

from tilecheck.explain.layout import Layout, layout_of
from tilecheck.explain.occupancy import Occupancy, occupancy
from tilecheck.explain.words import explanation

__all__ = ["Layout", "Occupancy", "explanation", "layout_of", "occupancy"]
