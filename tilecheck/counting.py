"""How many there are of what, in messages."""


def many(count: int, noun: str) -> str:
    """ "1 row", "2 rows": of nouns that take an s."""
    return f"{count} {noun}{'' if count == 1 else 's'}"
