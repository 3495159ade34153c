"""How a command ends: the exit codes, and how it says that it cannot do what was asked for."""

EXIT_CODES = """\
exit codes:
  0  fine
  1  what was asked for differs, or could not be done
  2  wrong usage, or input or output that cannot be used; one line on standard error says which
"""
"""What `--help` says; a command that has more to say has its own."""


class BadInput(Exception):
    """Wrong usage, or input or output that cannot be used: its text is the one line that is shown, and the
    exit code is 2.
    """


def want_gpu(what: str, mend: str) -> None:
    """Raises BadInput where kernels cannot run on a GPU here.

    what: wants it, in the plural.  mend: what to do without one.
    """
    from tilecheck import environment

    lacking = environment.missing_packages() or environment.why_no_gpu(environment.machine())
    if lacking:
        raise BadInput(f"{what} want a GPU: {lacking}; {mend}")
