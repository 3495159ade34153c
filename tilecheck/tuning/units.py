"""How numbers are printed."""


def microseconds(seconds: float) -> str:
    """Four digits of a time: 1457 us, 187.0 us, 4.492 us."""
    value = seconds * 1e6
    digits = 0 if value >= 1000 else 1 if value >= 100 else 2 if value >= 10 else 3
    return f"{value:.{digits}f} us"


def percent(share: float) -> str:
    """A share with one digit behind the point: +3.2 %."""
    return f"{share * 100:+.1f} %"
