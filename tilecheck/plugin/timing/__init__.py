"""Rows of latency: timed, and held against a baseline.

mode        whether a run times, and against what;  rows are those that it times
compiling   all of them, before the first is timed
stopwatch   one row;  clock brings its samples into pytest-benchmark;  files are what that writes
summary     head and end of the run
"""
