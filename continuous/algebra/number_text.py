"""The text of floating point numbers as the store writes it: shortest digits, never an exponent."""

from __future__ import annotations

import math
import struct
from decimal import Decimal


def double_text(number: float) -> str:
    """Text of a double as Oxigraph prints it: shortest digits that read back, never an exponent."""
    if number != number:
        return "NaN"
    if number in (float("inf"), float("-inf")):
        return "INF" if number > 0 else "-INF"
    if 2.0**49 <= abs(number) < 2.0**51 and abs(number) % 0.5 == 0.25:
        # Two texts are equally near and short; Rust takes the larger, Python's repr the even one.
        return f"{int(number)}.{3 if abs(number) % 1 == 0.25 else 8}"
    return _without_exponent(repr(number))


def float_text(number: float) -> str:
    """Text of a single precision number as Oxigraph prints it: the nearest of the shortest texts."""
    if not number or not math.isfinite(number):
        return double_text(float(number))
    size = Decimal(abs(float(number)))
    sign = "-" if number < 0 else ""
    for digits in range(1, 10):
        unit = Decimal((0, (1,), size.adjusted() - digits + 1))
        below = size // unit * unit
        for candidate in sorted((below + unit, below), key=lambda text: abs(text - size)):
            if _single(float(candidate)) == abs(number):
                return sign + _without_exponent(repr(float(candidate)))
    raise AssertionError(f"nine digits always identify a single precision number, here {number!r}")


def _single(number: float) -> float:
    try:
        return float(struct.unpack("<f", struct.pack("<f", number))[0])
    except OverflowError:
        return math.inf


def _without_exponent(text: str) -> str:
    sign = "-" if text.startswith("-") else ""
    mantissa, _, exponent = text.lstrip("-").partition("e")
    whole, _, fraction = mantissa.partition(".")
    point = len(whole) + int(exponent or 0)
    digits = (whole + fraction).rstrip("0") if point < len(whole + fraction) else whole + fraction
    if point <= 0:
        return f"{sign}0.{'0' * -point}{digits}" if digits.strip("0") else f"{sign}0"
    digits = digits.ljust(point, "0")
    rest = digits[point:].rstrip("0")
    return f"{sign}{digits[:point]}" + (f".{rest}" if rest else "")
