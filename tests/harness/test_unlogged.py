"""What TileLang logs and nobody needs."""

import logging

import pytest

from tilecheck.unlogged import unlogged


def test_only_records_that_begin_so_and_only_inside(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("somebody.else")
    with unlogged("somebody.else", "Found kernel '%s'"):
        logger.warning("Found kernel '%s' in memory", "x")
        logger.warning("Lost kernel '%s'", "y")
    logger.warning("Found kernel '%s' again", "z")
    assert caplog.messages == ["Lost kernel 'y'", "Found kernel 'z' again"]


def test_tilelang_says_nothing_of_a_kernel_that_is_taken_twice() -> None:
    """The record is TileLang's own: this fails where it is worded anew, or comes from elsewhere."""
    from tilelang.cache.kernel_cache import KernelCache

    from tilecheck.launch import IN_MEMORY

    logger = KernelCache().logger
    said: list[str] = []
    listener = logging.Handler()  # of its own: whether TileLang's records reach the root's depends on it
    listener.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    logger.addHandler(listener)
    try:
        with unlogged(*IN_MEMORY):
            logger.warning(IN_MEMORY[1], "x")
            logger.warning("anything else")
    finally:
        logger.removeHandler(listener)
    assert said == ["anything else"]
    source = KernelCache.cached.__code__.co_consts
    assert logger.name == IN_MEMORY[0]
    assert any(isinstance(text, str) and text.startswith(IN_MEMORY[1]) for text in source)
