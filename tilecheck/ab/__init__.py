"""Two states of the same kernels, timed in turn in one run on one GPU.

A stored time is of another day and perhaps another machine; this asks what a change does, and needs none.
Each side, a commit or a version of TileLang, has a process of its own, and only one of them works at a time.

pairs   what times in turn say: pure arithmetic
sides   the two processes, and where their kernels come from
bench   what a process does: compile, check, time
match   the run: rows of both sides, in turn, with a verdict each
report  what people and scripts get to see of it
"""
