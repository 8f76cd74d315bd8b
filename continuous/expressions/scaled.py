"""Chains of arithmetic over decimals, as source text on whole numbers.

A decimal is its value times 10^18. Where every variable of a chain holds one of ordinary size, no step can
be out of range, as the bounds here tell, so that nothing is checked or made but the last result:

    FLOOR((?x + 74.913585) / 0.005986) + 1

    if type(v1) is Decimal18 and -SMALL < v1 < SMALL:
        n2 = v1 + scaled_3
        n4 = n2 * scaled_4
        n6 = n4 // scaled_5 if n4 >= 0 else -(-n4 // scaled_5)
        n7 = n6 // ONE * ONE
        n9 = n7 + scaled_8
        v10 = Decimal18(n9)
    else:
        v10 = ...                           operation by operation (`numeric`)
"""

from __future__ import annotations

from collections.abc import Callable
from math import gcd
from typing import Any, NamedTuple

from ..algebra.nodes import Call, Constant, Expr, Var
from .oxigraph import canonical
from .values import DECIMAL_LIMIT, DECIMAL_ONE, Decimal18, value_of

SMALL = 10**9 * DECIMAL_ONE
"""What variables are less than."""
NAMES: dict[str, Any] = {"Decimal18": Decimal18, "ONE": DECIMAL_ONE, "SMALL": SMALL}
"""What the lines use besides named constants."""
_FEWEST = 2
"""Operations that are worth a form of their own."""
_ROUNDED = {
    "FLOOR": "{0} // ONE * ONE",
    "CEIL": "-(-{0} // ONE) * ONE",
    "ROUND": "({0} + ONE // 2) // ONE * ONE",
}
OPERATIONS = frozenset(["+", "-", "*", "/", *_ROUNDED])
"""What chains consist of."""


class _Number(NamedTuple):
    """The text of a whole number, and what its size is at most; ``known`` where it is a constant.

    ``is_integer`` tells of the value's type, as those of xsd:integer are out of range much earlier.
    """

    text: str
    most: int
    known: int | None = None
    is_integer: bool = False


class Chain:
    """The lines of one chain.

    Attributes:
        lines: what computes it, ``result`` the text of its value as a whole number; empty for an expression
            that is no chain.
        variables: the local of each variable, which is to hold its value.
    """

    def __init__(self, expr: Expr, fresh: Callable[[str], str], name_of: Callable[[Any, str], str]) -> None:
        self.lines: list[str] = []
        self.variables: dict[str, str] = {}
        self.result = ""
        self._fresh = fresh
        self._name_of = name_of
        number = self._number(expr)
        if number is None or len(self.lines) < _FEWEST or not self.variables:
            self.lines = []
        else:
            self.result = number.text

    @property
    def guard(self) -> str:
        """The test of its variables."""
        tests = [f"type({v}) is Decimal18 and -SMALL < {v} < SMALL" for v in self.variables.values()]
        return " and ".join(tests)

    def _number(self, expr: Expr) -> _Number | None:
        match expr:
            case Var(name):
                if name not in self.variables:
                    self.variables[name] = self._fresh("v")
                return _Number(self.variables[name], SMALL)
            case Constant(term):
                value = value_of(canonical(term))
                if type(value) is not int and type(value) is not Decimal18:
                    return None
                scaled = value * DECIMAL_ONE if type(value) is int else int(value)
                return _Number(self._name_of(scaled, "scaled"), abs(scaled), scaled, type(value) is int)
            case Call(name, (given,)) if name in _ROUNDED:
                number = self._number(given)
                if number is None or number.is_integer:
                    return number
                return self._step(_ROUNDED[name].format(number.text), number.most + DECIMAL_ONE)
            case Call(("+" | "-" | "*" | "/") as name, (left, right)):
                a, b = self._number(left), self._number(right)
                return None if a is None or b is None else self._combined(name, a, b)
        return None

    def _combined(self, name: str, a: _Number, b: _Number) -> _Number | None:
        if a.is_integer and b.is_integer:
            return None
        if name in "+-":
            return self._step(f"{a.text} {name} {b.text}", a.most + b.most)
        if name == "*":
            most = a.most * b.most // DECIMAL_ONE
            if b.known is not None and not b.known % DECIMAL_ONE:
                return self._step(f"{a.text} * {self._name_of(b.known // DECIMAL_ONE, 'scaled')}", most)
            product = self._step(f"{a.text} * {b.text}", 0)
            return product and self._cut(product.text, "ONE", most)
        if not b.known or b.known < 0:
            return None
        # As small numbers as the quotient allows: Python divides by one digit of 30 bits twice as fast.
        common = gcd(DECIMAL_ONE, b.known)
        factor, divisor = (self._name_of(each // common, "scaled") for each in (DECIMAL_ONE, b.known))
        scaled = self._step(f"{a.text} * {factor}", 0)
        return scaled and self._cut(scaled.text, divisor, a.most * DECIMAL_ONE // b.known)

    def _cut(self, dividend: str, divisor: str, most: int) -> _Number | None:
        """A quotient without its fraction."""
        return self._step(
            f"{dividend} // {divisor} if {dividend} >= 0 else -(-{dividend} // {divisor})", most
        )

    def _step(self, text: str, most: int) -> _Number | None:
        if most >= DECIMAL_LIMIT:
            return None
        local = self._fresh("n")
        self.lines.append(f"{local} = {text}")
        return _Number(local, most)
