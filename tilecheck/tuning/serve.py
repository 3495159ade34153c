"""`python -m tilecheck.tuning.serve`: a worker. The module that runs is another than the one it imports."""

import os
import sys

from tilecheck.tuning.worker import main

if __name__ == "__main__":
    # A kernel that reads standard input, as by `breakpoint()`, must not wait for requests, nor take them.
    requests = os.fdopen(os.dup(0), encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    main(sys.argv[1:], requests)
