"""Chains of arithmetic over decimals, as source text on whole numbers.

A decimal is its value times 10^18. Where every variable of a chain holds one of ordinary size, no step can
be out of range, as the bounds here tell, so that nothing is checked or made but the last result; factors that
follow each other are one. What was rounded is counted in ones from there on:

    FLOOR((?x + 74.913585) * 2 / 0.005986) + 1

    if (b1 := ~row[1]) > 0 and ... and -SMALL < (v2 := ...) < SMALL:     what is inside the id of a decimal
        n4 = v2 + scaled_3
        n5 = n4 * scaled_4
        n6 = n5 // scaled_5 if n5 >= 0 else -(-n5 // scaled_5)
        n7 = n6 // ONE
        n8 = n7 + scaled_8
        v9 = WHOLES[n8]
    else:
        v9 = ...                           operation by operation (`numeric`)
"""

from __future__ import annotations

from collections.abc import Callable
from math import gcd
from typing import Any, NamedTuple

from quadrill.store.dictionary import DECIMAL_UNITS

from ..algebra.nodes import Call, Constant, Expr, Var
from .oxigraph import canonical
from .values import DECIMAL_LIMIT, DECIMAL_ONE, Decimal18, value_of

_MOST_WHOLES = 4096


class _Wholes(dict[int, Decimal18]):
    """Whole numbers as decimals: those of cells and counts come again and again."""

    def __missing__(self, number: int) -> Decimal18:
        if len(self) >= _MOST_WHOLES:
            self.clear()
        made = self[number] = Decimal18(number * DECIMAL_ONE)
        return made


SMALL = 10**9 * DECIMAL_ONE
"""What variables are less than."""
NAMES: dict[str, Any] = {
    "Decimal18": Decimal18,
    "ONE": DECIMAL_ONE,
    "SMALL": SMALL,
    "UNITS": DECIMAL_UNITS,
    "WHOLES": _Wholes(),
}
"""What the lines use besides named constants."""
_ROUNDED = {
    "FLOOR": "{0} // ONE",
    "CEIL": "-(-{0} // ONE)",
    "ROUND": "({0} + ONE // 2) // ONE",
}
OPERATIONS = frozenset(["+", "-", "*", "/", *_ROUNDED])
"""What chains consist of."""


class _WholeNumber(NamedTuple):
    """The text of a whole number, and what the value's size is at most, times 10^18.

    The value is ``text`` times ``times``; times 10^18 where it is ``known``, a constant, and where it is not
    ``in_ones``. ``is_integer`` tells of its type, as those of xsd:integer are out of range much earlier.
    """

    text: str
    most: int
    known: int | None = None
    is_integer: bool = False
    times: int = 1
    in_ones: bool = False

    @property
    def ones(self) -> int | None:
        """The number of a whole constant."""
        return None if self.known is None or self.known % DECIMAL_ONE else self.known // DECIMAL_ONE


class Chain:
    """The lines of one chain.

    Attributes:
        lines: what computes it, ``result`` the text of its value: empty for an expression that is no chain.
        variables: the local of each variable, which is to hold its value.
    """

    def __init__(self, expr: Expr, fresh: Callable[[str], str], name_of: Callable[[Any, str], str]) -> None:
        self.lines: list[str] = []
        self.variables: dict[str, str] = {}
        self.result = ""
        self._fresh = fresh
        self._name_of = name_of
        number = self._number(expr)
        if number is not None and self.variables:
            in_ones = number.in_ones
            text = self._text(number, in_ones=in_ones)
            self.result = f"WHOLES[{text}]" if in_ones else f"Decimal18({text})"

    def _number(self, expr: Expr) -> _WholeNumber | None:
        match expr:
            case Var(name):
                if name not in self.variables:
                    self.variables[name] = self._fresh("v")
                return _WholeNumber(self.variables[name], SMALL)
            case Constant(term):
                value = value_of(canonical(term))
                if type(value) is not int and type(value) is not Decimal18:
                    return None
                scaled = value * DECIMAL_ONE if type(value) is int else int(value)
                return _WholeNumber(self._name_of(scaled, "scaled"), abs(scaled), scaled, type(value) is int)
            case Call(name, (given,)) if name in _ROUNDED:
                number = self._number(given)
                if number is None or number.is_integer or number.in_ones:
                    return number
                text = _ROUNDED[name].format(self._text(number))
                return self._step(text, number.most + DECIMAL_ONE, in_ones=True)
            case Call(("+" | "-" | "*" | "/") as name, (left, right)):
                a, b = self._number(left), self._number(right)
                return None if a is None or b is None else self._combined(name, a, b)
        return None

    def _combined(self, name: str, a: _WholeNumber, b: _WholeNumber) -> _WholeNumber | None:
        if a.is_integer and b.is_integer:
            return None
        if name in "+-":
            in_ones = (a.in_ones or a.ones is not None) and (b.in_ones or b.ones is not None)
            left, right = (self._text(each, in_ones=in_ones) for each in (a, b))
            return self._step(f"{left} {name} {right}", a.most + b.most, in_ones=in_ones)
        if name == "*":
            if b.ones is None and a.ones is not None:
                a, b = b, a
            most = a.most * b.most // DECIMAL_ONE
            if b.ones is not None:
                made = _WholeNumber(a.text, most, times=a.times * b.ones, in_ones=a.in_ones)
                return made if most < DECIMAL_LIMIT else None
            product = self._step(f"{self._text(a)} * {self._text(b)}", 0)
            return product and self._cut(product.text, "ONE", most)
        if not b.known or b.known < 0:
            return None
        # As small numbers as the quotient allows: Python divides by one digit of 30 bits twice as fast.
        factor = a.times * DECIMAL_ONE * (DECIMAL_ONE if a.in_ones else 1)
        common = gcd(factor, b.known)
        scaled = self._step(f"{a.text} * {self._name_of(factor // common, 'scaled')}", 0)
        divisor = self._name_of(b.known // common, "scaled")
        return scaled and self._cut(scaled.text, divisor, a.most * DECIMAL_ONE // b.known)

    def _cut(self, dividend: str, divisor: str, most: int) -> _WholeNumber | None:
        """A quotient without its fraction."""
        return self._step(
            f"{dividend} // {divisor} if {dividend} >= 0 else -(-{dividend} // {divisor})", most
        )

    def _text(self, number: _WholeNumber, *, in_ones: bool = False) -> str:
        """The text of a number times 10^18, or ``in_ones``, with all that it is still to be multiplied by."""
        if in_ones and number.ones is not None:
            return self._name_of(number.ones, "scaled")
        times = number.times * (DECIMAL_ONE if number.in_ones and not in_ones else 1)
        if times == 1:
            return number.text
        local = self._fresh("n")
        self.lines.append(f"{local} = {number.text} * {self._name_of(times, 'scaled')}")
        return local

    def _step(self, text: str, most: int, *, in_ones: bool = False) -> _WholeNumber | None:
        if most >= DECIMAL_LIMIT:
            return None
        local = self._fresh("n")
        self.lines.append(f"{local} = {text}")
        return _WholeNumber(local, most, in_ones=in_ones)
