"""Compilation of expressions to Python source and to functions of a row of term ids.

`compile_value` and `compile_condition` put the source of an expression into a function for interpreted
operators; the plan compiler puts the same lines inside its loop. Every sub-expression becomes one local
variable with a value or None (an error, SPARQL 1.1 section 17.2).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache, partial
from operator import itemgetter
from typing import Any

from pyoxigraph import NamedNode

from quadrill.store.dictionary import INLINE_DECIMAL
from quadrill.store.errors import UnsupportedError

from ..algebra.nodes import Call, Constant, Exists, Expr, FunctionCall, Var
from ..algebra.scalar_functions import EXTENSION_FUNCTIONS
from ..rows import UNLIMITED, Budget
from . import functions, numeric, oxigraph
from .emitter import Emitter
from .scaled import NAMES, OPERATIONS, Chain
from .string_growth import GROWING, call_within
from .values import DECIMAL_ONE, XSD, Decimal18, Maybe, Value, ValueTable, term_of, value_of

ValueFunction = Callable[[tuple[int, ...]], Maybe]
Condition = Callable[[tuple[int, ...]], bool]
PairCondition = Callable[[tuple[int, ...], tuple[int, ...]], bool]
TermFunction = Callable[..., Any]


@dataclass(slots=True)
class ExpressionContext:
    """Objects that a query's expressions need in addition to the row.

    ``functions`` are the extension functions on terms, by IRI; they return None for an error. ``base_iri`` is
    the base IRI of the function ``IRI()``. ``budget`` limits the length of the text that expressions make.
    """

    values: ValueTable
    base_iri: str | None = None
    functions: Mapping[NamedNode, TermFunction] = field(default_factory=dict)
    budget: Budget = UNLIMITED


class ExpressionEmitter(Emitter):
    """Code emitter that writes SPARQL expressions into a generated function."""

    def __init__(self, context: ExpressionContext) -> None:
        super().__init__({"values": context.values}, commented=True)
        self.context = context
        self.in_loop = False
        """True if the generated function is a loop; the lines ``begin`` come before the loop, ``end`` after
        it.
        """
        self.begin: list[str] = []
        self.end: list[str] = []
        self.known: dict[str, str] = {}
        """Locals of generated code that already hold the value of a variable, by the variable's name."""
        self.decimals: set[str] = set()
        """Local variables of the generated function that usually hold a decimal."""
        # True inside the slow branch of an arithmetic chain, whose operations must not become chains again.
        self._in_chain = False

    def value(self, expr: Expr, slots: Mapping[str, str]) -> str:
        """Write lines that compute the expression ``expr``, and return the local that holds the value.

        ``slots`` maps each variable to the source text of its term id; a variable without a slot is unbound.
        """
        match expr:
            case Var(name) if name in self.known:
                return self.known[name]
            case Var(name):
                slot = slots.get(name)
                if slot is None:
                    return "None"
                result = self.fresh()
                self.line(f"{result} = values[{slot}]")
                return result
            case Constant(term):
                return self.name_of(value_of(oxigraph.canonical(term)), "k")
            case Exists():
                raise UnsupportedError("EXISTS in this place", "EXISTS is planned as a join, not compiled")
            case FunctionCall(iri, args):
                return self._function(iri, args, slots)
            case Call(name, args):
                if name in OPERATIONS and not self._in_chain:
                    chain = Chain(expr, self.fresh, self.name_of)
                    if chain.result:
                        return self._chain(chain, name, args, slots)
                return self._call(name, args, slots)

    def extend(self, name: str, expr: Expr, slots: dict[str, str]) -> None:
        """Write lines that compute a new column ``name``.

        The value of the new column goes to ``known``, and its slot is empty while it has no term id.
        """
        if isinstance(expr, Var):
            slots[name] = slots.get(expr.name, "0")
            if expr.name in self.known:
                self.known[name] = self.known[expr.name]
            return
        self.known[name] = self.value(expr, slots)
        slots[name] = ""

    def _chain(self, chain: Chain, name: str, args: tuple[Expr, ...], slots: Mapping[str, str]) -> str:
        """Write an arithmetic chain: integer arithmetic if all variables are decimals, else a call each.

        Without decimals, an arithmetic chain makes one call for each operation.
        """
        known, result, tests, otherwise = self.known, self.fresh(), [], []
        self.names.update(NAMES)
        for variable, local in chain.variables.items():
            slot = slots.get(variable)
            if slot and variable not in known:
                inside = {"term_id": slot, "bits": self.fresh("b")}
                test, number = (text.format_map(inside) for text in INLINE_DECIMAL)
                tests.append(f"{test} and -SMALL < ({local} := {number}) < SMALL")
                otherwise.append(f"    {local} = values[{slot}]")
            else:
                self.line(f"{local} = {self.value(Var(variable), slots)}")
                tests.append(f"type({local}) is Decimal18 and -SMALL < {local} < SMALL")
        self.known = known | chain.variables
        self.line(f"if {' and '.join(tests)}:")
        self.line(*[f"    {each}" for each in chain.lines], f"    {result} = {chain.result}")
        self.line("else:", *otherwise)
        self.depth, self._in_chain = self.depth + 1, True
        self.line(f"{result} = {self._call(name, args, slots)}")
        self.depth, self._in_chain = self.depth - 1, False
        self.known = known
        self.decimals.add(result)
        return result

    def truth(self, expr: Expr, slots: Mapping[str, str]) -> str:
        """Write lines for an effective boolean value; return a local that holds True, False or None."""
        local = self.value(expr, slots)
        if isinstance(expr, Call) and expr.name in _BOOLEAN:
            return local
        result = self.fresh("b")
        self.line(f"{result} = {self.name_of(numeric.ebv, 'ebv')}({local})")
        return result

    def holds(self, expr: Expr, slots: Mapping[str, str]) -> str:
        """Write lines for a condition, and return source text that is truthy exactly if ``expr`` is true."""
        if isinstance(expr, Call) and _OPERATORS.get(expr.name) in _COMPARISONS:
            return f"({self._operator(_OPERATORS[expr.name], expr.args, slots)})"
        return f"{self.truth(expr, slots)} is True"

    def _call(self, name: str, args: tuple[Expr, ...], slots: Mapping[str, str]) -> str:
        if name in ("||", "&&"):
            return self._logic(name, args, slots)
        if name in _OPERATORS:
            return self._assign(self._operator(_OPERATORS[name], args, slots))
        if name == "BOUND":
            (variable,) = args
            if isinstance(variable, Var) and variable.name in self.known:
                return self._assign(f"{self.known[variable.name]} is not None")
            slot = slots.get(variable.name) if isinstance(variable, Var) else None
            return self._assign("False" if slot is None else f"({slot}) != 0")
        if name == "!":
            truth = self.truth(args[0], slots)
            return self._assign(f"None if {truth} is None else not {truth}")
        if name == "IF":
            return self._if(args, slots)
        if name == "COALESCE":
            return self._coalesce(args, slots)
        if name in ("IN", "NOT IN"):
            return self._in(name, args, slots)
        if name in ("IRI", "URI"):
            return self._guarded(partial(_iri, self.context.base_iri), args, slots)
        if name in functions.VOLATILE:
            raise UnsupportedError(f"{name}()", f"{name}() differs at every instant, so nothing can be kept")
        if name in functions.BUILT_INS:
            function, arity = functions.BUILT_INS[name]
        elif name in GROWING:
            growing, arity = GROWING[name]
            function = partial(growing, self.context.budget)
        elif name in functions.ASKED:
            function, arity = functions.asked(name), functions.ASKED[name]
        else:
            raise UnsupportedError(f"the function {name}")
        if len(args) not in arity:
            raise UnsupportedError(f"{name} with {len(args)} arguments")
        return self._guarded(function, args, slots)

    def _function(self, iri: NamedNode, args: tuple[Expr, ...], slots: Mapping[str, str]) -> str:
        own = self.context.functions.get(iri)
        if own is not None:
            if iri in EXTENSION_FUNCTIONS:
                own = partial(call_within, self.context.budget, iri, own)
            return self._guarded(partial(_on_terms, own), args, slots)
        text = f"<{iri.value}>"
        fault = oxigraph.known(text, len(args))
        if fault is not None:
            raise UnsupportedError(f"the function {text} with {len(args)} arguments", hint=fault)
        return self._guarded(_CASTS.get(iri.value) or partial(oxigraph.ask, text), args, slots)

    def _operator(
        self, function: Callable[..., Maybe], args: tuple[Expr, ...], slots: Mapping[str, str]
    ) -> str:
        """Return source text that applies an operator; operators accept None (errors) as operands."""
        locals_ = [self.value(arg, slots) for arg in args]
        name = self.name_of(function, function.__name__)
        call = f"{name}({', '.join(locals_)})"
        sign = _COMPARISONS.get(function)
        if sign is None:
            return call
        for place, local in enumerate(locals_):
            number: Any = self.names.get(local)
            if type(number) in (int, Decimal18) and abs(number) < DECIMAL_ONE:
                return self._compared(locals_, place, sign, number, call)
        left, right = locals_
        exact = self.name_of(_EXACT_KINDS, "exact")
        return f"{left} {sign} {right} if type({left}) is type({right}) in {exact} else {call}"

    def _compared(self, locals_: list[str], place: int, sign: str, number: int, call: str) -> str:
        """Return the text of a comparison with a constant, which avoids calls for decimals and integers."""
        other, kind = locals_[1 - place], self.name_of(Decimal18, "Decimal18")
        scaled = self.name_of(int(number) * (DECIMAL_ONE if type(number) is int else 1), "scaled")

        def text(known: str) -> str:
            return f"{other} {sign} {known}" if place else f"{known} {sign} {other}"

        rest = call
        if type(number) is int:
            rest = f"{text(locals_[place])} if type({other}) is int else {call}"
        return f"{text(scaled)} if type({other}) is {kind} else {rest}"

    def _guarded(
        self, function: Callable[..., Maybe], args: tuple[Expr, ...], slots: Mapping[str, str]
    ) -> str:
        """Write a function call whose result is None if an argument is None (an error)."""
        locals_ = [self.value(arg, slots) for arg in args]
        call = f"{self.name_of(function, 'f')}({', '.join(locals_)})"
        if not locals_:
            return self._assign(call)
        failed = " or ".join(f"{local} is None" for local in locals_)
        return self._assign(f"None if {failed} else {call}")

    def _logic(self, name: str, args: tuple[Expr, ...], slots: Mapping[str, str]) -> str:
        """Write ``||`` or ``&&`` in three-valued logic.

        The right side of ``||`` or ``&&`` is not evaluated if the left side decides.
        """
        decides = "True" if name == "||" else "False"
        result = self.fresh("b")
        left = self.truth(args[0], slots)
        self.line(f"{result} = {left}")
        for arg in args[1:]:
            self.line(f"if {result} is not {decides}:")
            self.depth += 1
            right = self.truth(arg, slots)
            other = "False" if name == "||" else "True"
            self.line(f"if {right} is {decides}: {result} = {decides}")
            self.line(f"elif {right} is None or {result} is None: {result} = None")
            self.line(f"else: {result} = {other}")
            self.depth -= 1
        return result

    def _if(self, args: tuple[Expr, ...], slots: Mapping[str, str]) -> str:
        condition, then, otherwise = args
        result = self.fresh()
        truth = self.truth(condition, slots)
        self.line(f"{result} = None")
        for test, branch in ((f"if {truth}:", then), (f"elif {truth} is False:", otherwise)):
            self.line(test)
            self.depth += 1
            self.line(f"{result} = {self.value(branch, slots)}")
            self.depth -= 1
        return result

    def _coalesce(self, args: tuple[Expr, ...], slots: Mapping[str, str]) -> str:
        result = self.fresh()
        self.line(f"{result} = None")
        depth = self.depth
        for arg in args:
            local = self.value(arg, slots)
            self.line(f"{result} = {local}")
            self.line(f"if {result} is None:")
            self.depth += 1
        self.line("pass")
        self.depth = depth
        return result

    def _in(self, name: str, args: tuple[Expr, ...], slots: Mapping[str, str]) -> str:
        """Write ``x IN (a, b)`` as ``x = a || x = b``."""
        if len(args) == 1:
            # Oxigraph evaluates an empty list for ``IN`` as IF(x, false, false): an error if x has no boolean
            # value.
            tested = self.truth(args[0], slots)
            return self._assign(f"None if {tested} is None else {name == 'NOT IN'}")
        same: Expr = args[0]
        for position, arg in enumerate(args[1:]):
            test = Call("=", (args[0], arg))
            same = test if not position else Call("||", (same, test))
        return self.value(same if name == "IN" else Call("!", (same,)), slots)

    def _assign(self, source: str) -> str:
        result = self.fresh()
        self.line(f"{result} = {source}")
        return result

    def source(self, head: str) -> str:
        """Return the source text of the function.

        Comments in a generated function show the RDF terms of its ids and constants.
        """
        terms, constants = self.context.values.dictionary.terms, []
        for name, thing in self.names.items():
            if name.startswith("id_") and isinstance(thing, int):
                constants.append(f"    # {name}: {terms[thing]}")
            elif name.startswith("k_"):
                constants.append(f"    # {name}: {thing}")
        return "\n".join([head, *[line.replace("\n", " ") for line in constants], *self.lines]) + "\n"


def compile_value(expr: Expr, schema: tuple[str, ...], context: ExpressionContext) -> ValueFunction:
    """Compile ``expr`` to a function from a row (term ids in the order of ``schema``) to a value or None."""
    emitter = ExpressionEmitter(context)
    emitter.depth = 1
    result = emitter.value(expr, _slots(schema))
    emitter.line(f"return {result}")
    function: ValueFunction = emitter.build("def value(row):", "value")
    return function


def compile_id(
    expr: Expr, schema: tuple[str, ...], context: ExpressionContext
) -> Callable[[tuple[int, ...]], int]:
    """Compile ``expr`` to a function from a row to the value's term id; a variable's id is copied."""
    if isinstance(expr, Var):
        return itemgetter(schema.index(expr.name)) if expr.name in schema else lambda row: 0
    value, id_of = compile_value(expr, schema, context), context.values.id_of
    return lambda row: id_of(value(row))


def compile_condition(expr: Expr, schema: tuple[str, ...], context: ExpressionContext) -> Condition:
    """Compile ``expr`` to a function of a row that returns True if the effective boolean value is true."""
    test: Condition = _condition(expr, _slots(schema), context, "row")
    return test


def compile_pair_condition(
    expr: Expr, schema: tuple[str, ...], other: tuple[str, ...], context: ExpressionContext
) -> PairCondition:
    """Compile a condition over two rows; a column of both rows is read from the first row."""
    test: PairCondition = _condition(expr, _slots(other, "other") | _slots(schema), context, "row, other")
    return test


def _condition(expr: Expr, slots: Mapping[str, str], context: ExpressionContext, given: str) -> Any:
    emitter = ExpressionEmitter(context)
    emitter.depth = 1
    result = emitter.truth(expr, slots)
    emitter.line(f"return {result} is True")
    return emitter.build(f"def condition({given}):", "condition")


def _slots(schema: tuple[str, ...], row: str = "row") -> dict[str, str]:
    return {name: f"{row}[{position}]" for position, name in enumerate(schema)}


def _iri(base_iri: str | None, value: Value) -> Maybe:
    if type(value) is str:
        return _iri_of(base_iri, value)
    return value if type(value) is NamedNode else oxigraph.ask_with_base("IRI", base_iri, value)


@lru_cache(maxsize=65_536)
def _iri_of(base_iri: str | None, text: str) -> Maybe:
    """Return the IRI for a text; Oxigraph resolves relative IRIs and removes dot segments of paths."""
    if "/." not in text:
        with suppress(ValueError):
            return NamedNode(text)
    return oxigraph.ask_with_base("IRI", base_iri, text)


def _on_terms(function: TermFunction, *values: Value) -> Maybe:
    result = function(*map(term_of, values))
    return None if result is None else value_of(result)


_CASTS: dict[str, Callable[..., Maybe]] = {
    XSD + "integer": numeric.to_integer,
    XSD + "decimal": numeric.to_decimal,
}
_OPERATORS: dict[str, Callable[..., Maybe]] = {
    "=": numeric.equals,
    "!=": numeric.differs,
    "<": numeric.less,
    "<=": numeric.less_or_equal,
    ">": numeric.greater,
    ">=": numeric.greater_or_equal,
    "+": numeric.add,
    "-": numeric.subtract,
    "*": numeric.multiply,
    "/": numeric.divide,
    "UNARY-": numeric.negate,
    "UNARY+": numeric.plus,
}
_COMPARISONS: dict[Callable[..., Maybe], str] = {
    numeric.equals: "==",
    numeric.differs: "!=",
    numeric.less: "<",
    numeric.less_or_equal: "<=",
    numeric.greater: ">",
    numeric.greater_or_equal: ">=",
}
"""Python operators that equal a comparison function if both operands are integers or both are decimals."""
_EXACT_KINDS = frozenset((int, Decimal18))
_BOOLEAN = frozenset({"=", "!=", "<", "<=", ">", ">=", "||", "&&", "!", "BOUND", "IN", "NOT IN"})
