"""How a command says that it cannot do what was asked for."""


class BadInput(Exception):
    """Wrong usage or unusable input: its text is the one line that is shown, and the exit code is 2."""
