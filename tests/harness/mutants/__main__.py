"""`python -m tests.harness.mutants`. The work is in `matrix`, which processes of a pool can import."""

import sys

from tests.harness.mutants.matrix import main

sys.exit(main())
