"""Rows of code: compiled, and held against their landmarks and the facts of last time.

rows       which there are; shared has those whose shared memory is looked at
checking   one row;  update stores what was found;  summary is the end of the run
"""
