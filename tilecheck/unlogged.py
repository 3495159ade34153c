"""Log records that say nothing to our users, kept out of their terminal."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def unlogged(logger: str, beginning: str) -> Iterator[None]:
    """Drops records of the logger of that name whose text, before values are put in, begins so."""

    def keep(record: logging.LogRecord) -> bool:
        return not str(record.msg).startswith(beginning)

    named = logging.getLogger(logger)
    named.addFilter(keep)
    try:
        yield
    finally:
        named.removeFilter(keep)
