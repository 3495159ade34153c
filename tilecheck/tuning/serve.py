"""`python -m tilecheck.tuning.serve`: a worker. The module that runs is another than the one it imports."""

import sys

from tilecheck.tuning.worker import main

if __name__ == "__main__":
    main(sys.argv[1:], sys.stdin)
