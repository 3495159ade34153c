"""A page whose code runs: sections of Markdown with blocks of Python and of commands.

page     what the sections and their blocks are
blocks   runs the blocks of one section, in this process
course   runs sections one by one, each in a process of its own, and keeps what became of them
"""

from tilecheck.tutorial.course import Result, play
from tilecheck.tutorial.page import Page, Section, read_page

__all__ = ["Page", "Result", "Section", "play", "read_page"]
