"""Chains of arithmetic on whole numbers give what their operations give one by one."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st
from pyoxigraph import Literal, NamedNode

from quadrill.continuous.algebra.nodes import Call, Constant, Expr, Var
from quadrill.continuous.expressions import numeric
from quadrill.continuous.expressions.compile import ExpressionContext, ExpressionEmitter, compile_value
from quadrill.continuous.expressions.values import (
    DECIMAL_LIMIT,
    DECIMAL_ONE,
    XSD,
    Decimal18,
    Maybe,
    ValueTable,
    term_of,
    value_of,
)
from quadrill.store.dictionary import TermDictionary

_ONE_BY_ONE = {
    "+": numeric.add,
    "-": numeric.subtract,
    "*": numeric.multiply,
    "/": numeric.divide,
    "FLOOR": numeric.floor,
    "CEIL": numeric.ceiling,
    "ROUND": numeric.round_half_up,
}
_decimals = st.one_of(
    st.integers(-(10**22), 10**22),
    st.integers(-50, 50).map(lambda n: n * DECIMAL_ONE // 2),
    st.integers(-DECIMAL_LIMIT, DECIMAL_LIMIT - 1),
).map(Decimal18)
_values = st.one_of(_decimals, st.integers(-(10**6), 10**6), st.just("text"), st.floats(-1e6, 1e6))
_huge = st.one_of(
    st.integers(2**63 - 3, 2**63 - 1), st.integers(-(2**63), 3 - 2**63), st.integers(2**31, 2**33)
)
_constants = st.one_of(_decimals, st.integers(-9, 9), _huge).map(lambda value: Constant(term_of(value)))


def _calls(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    return st.one_of(
        st.builds(Call, st.sampled_from("+-*/"), st.tuples(inner, inner)),
        st.builds(Call, st.sampled_from(["FLOOR", "CEIL", "ROUND"]), st.tuples(inner)),
    )


_exprs = st.recursive(st.one_of(st.sampled_from([Var("x"), Var("y")]), _constants), _calls, max_leaves=6)


def _one_by_one(expr: Expr, row: dict[str, Maybe]) -> Maybe:
    match expr:
        case Var(name):
            return row[name]
        case Constant(term):
            return value_of(term)
        case Call(name, args):
            values = [_one_by_one(each, row) for each in args]
            return None if None in values else _ONE_BY_ONE[name](*values)
    raise AssertionError(expr)


def _beside_x(name: str, *args: Expr) -> Expr:
    return Call("+", (Var("x"), Call(name, args)))


_MOST, _TWO = Constant(term_of(2**63 - 1)), Constant(term_of(2))


@given(_exprs, _values, _values)
@example(_beside_x("+", _MOST, _TWO), Decimal18(1), 0)
@example(_beside_x("*", _TWO, _MOST), Decimal18(1), 0)
@example(_beside_x("-", Constant(term_of(-(2**63))), _TWO), Decimal18(1), 0)
@example(_beside_x("*", Call("FLOOR", (_MOST,)), Call("CEIL", (_TWO,))), Decimal18(1), 0)
@example(_beside_x("/", _MOST, _TWO), Decimal18(1), 0)
def test_a_chain_is_its_operations(expr: Expr, x: Maybe, y: Maybe) -> None:
    """Whatever the variables hold: decimals of any size, integers, doubles, text."""
    values = ValueTable(TermDictionary())
    function = compile_value(expr, ("x", "y"), ExpressionContext(values))
    row = (values.id_of(x), values.id_of(y))
    expected = _one_by_one(expr, {"x": values[row[0]], "y": values[row[1]]})
    found = function(row)
    assert type(found) is type(expected)
    assert found == expected or found != found


def test_what_cannot_be_out_of_range_is_a_chain() -> None:
    """One operation or several; a divisor that may be 0 is looked at."""
    number = Constant(Literal("0.5", datatype=NamedNode(XSD + "decimal")))
    zero = Constant(Literal("0", datatype=NamedNode(XSD + "integer")))
    once = Call("+", (Var("x"), number))

    def is_chain(expr: Expr) -> bool:
        out = ExpressionEmitter(ExpressionContext(ValueTable(TermDictionary())))
        out.value(expr, {"x": "row[0]"})
        return any("-SMALL <" in line for line in out.lines)

    assert is_chain(once)
    assert is_chain(Call("FLOOR", (once,)))
    assert not is_chain(Call("+", (number, number)))
    assert not is_chain(Call("FLOOR", (Call("/", (Var("x"), zero)),)))
    assert not is_chain(Call("/", (number, Var("x"))))
