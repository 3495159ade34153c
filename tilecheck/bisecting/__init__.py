"""Which commit, or which release of TileLang, broke or slowed a case?

search      binary search that can skip: pure
candidates  commits and releases between two ends
probe       one candidate, asked in a process of its own
judging     what its answer means, given those of both ends
timing      the same question about time, on a GPU
hunt        all of it
"""
