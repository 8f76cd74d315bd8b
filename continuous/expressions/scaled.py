"""Chains of arithmetic operations on decimals, as source text that computes with Python integers.

A decimal is stored as its value times 10^18. If every variable of a chain is below `SMALL`, bounds computed
at the expression's compilation prove that no step is out of range. For such a chain of decimals, the
generated code checks nothing and creates only the final result. Consecutive constant factors of an arithmetic
chain are multiplied at compile time. A chain continues with a rounded number as a whole number of ones,
without the factor 10^18:

    FLOOR((?x + 74.913585) * 2 / 0.005986) + 1

    if (b1 := ~row[1]) > 0 and ... and -SMALL < (v2 := ...) < SMALL:     the number in the id of a decimal
        n4 = v2 + scaled_3
        n5 = n4 * scaled_4
        n6 = n5 // scaled_5 if n5 >= 0 else -(-n5 // scaled_5)
        n7 = n6 // ONE
        n8 = n7 + scaled_8
        v9 = WHOLES[n8]
    else:
        v9 = ...                           one call of `numeric` for each operation
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
    """Cache of whole numbers as decimals, because numbers of cells and counts repeat."""

    def __missing__(self, number: int) -> Decimal18:
        if len(self) >= _MOST_WHOLES:
            self.clear()
        made = self[number] = Decimal18(number * DECIMAL_ONE)
        return made


SMALL = 10**9 * DECIMAL_ONE
"""Bound of the absolute value of a chain's variables, times 10^18; larger values take the slow branch."""
NAMES: dict[str, Any] = {
    "Decimal18": Decimal18,
    "ONE": DECIMAL_ONE,
    "SMALL": SMALL,
    "UNITS": DECIMAL_UNITS,
    "WHOLES": _Wholes(),
}
"""Globals that the generated lines of an arithmetic chain use, in addition to constants."""
_ROUNDED = {
    "FLOOR": "{0} // ONE",
    "CEIL": "-(-{0} // ONE)",
    "ROUND": "({0} + ONE // 2) // ONE",
}
OPERATIONS = frozenset(["+", "-", "*", "/", *_ROUNDED])
"""The operators and built-in functions that an arithmetic chain may contain."""


class _WholeNumber(NamedTuple):
    """Source text of a number in an arithmetic chain, with a bound of its absolute value.

    ``most`` is the greatest absolute value of the number in a chain, times 10^18. The number in a chain is
    ``text`` times ``times``; ``text`` is scaled by 10^18 unless ``in_ones`` is True. ``known`` is the scaled
    value of a constant, None for other numbers. ``is_integer`` is True for xsd:integer, whose range is much
    smaller than that of xsd:decimal.
    """

    text: str
    most: int
    known: int | None = None
    is_integer: bool = False
    times: int = 1
    in_ones: bool = False

    @property
    def ones(self) -> int | None:
        """The unscaled value of a constant that is a whole number, else None."""
        return None if self.known is None or self.known % DECIMAL_ONE else self.known // DECIMAL_ONE


class Chain:
    """The generated lines of one arithmetic chain.

    Attributes:
        lines: the lines that compute the chain.
        result: the source text of the chain's value, empty if the expression is no chain.
        variables: for each variable of the chain, the local that the caller must set to the variable's value.
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
        # Dividend and divisor are reduced, because Python divides by a one-digit number (30 bits) twice as
        # fast.
        factor = a.times * DECIMAL_ONE * (DECIMAL_ONE if a.in_ones else 1)
        common = gcd(factor, b.known)
        scaled = self._step(f"{a.text} * {self._name_of(factor // common, 'scaled')}", 0)
        divisor = self._name_of(b.known // common, "scaled")
        return scaled and self._cut(scaled.text, divisor, a.most * DECIMAL_ONE // b.known)

    def _cut(self, dividend: str, divisor: str, most: int) -> _WholeNumber | None:
        """Write an integer division that rounds towards zero."""
        return self._step(
            f"{dividend} // {divisor} if {dividend} >= 0 else -(-{dividend} // {divisor})", most
        )

    def _text(self, number: _WholeNumber, *, in_ones: bool = False) -> str:
        """Return the text of a chain's number with its pending factor, scaled by 10^18 unless ``in_ones``."""
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
