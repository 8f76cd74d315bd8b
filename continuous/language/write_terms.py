"""Terms, expressions, paths, windows and durations as query text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar, cast

from pyoxigraph import BlankNode, Literal, NamedNode, Triple

from ..algebra import nodes as a
from ..algebra.nodes import Aggregate, Algebra, Call, Expr, Var
from ..algebra.query import Dialect, WindowDeclaration
from .expressions import AGGREGATE_NAMESPACE, percentile_iri
from .terms import RDF_TYPE, XSD, XSD_BOOLEAN, XSD_DECIMAL, XSD_DOUBLE, XSD_INTEGER
from .triples import CHAIN, fold
from .windows import word_of

_LOCAL = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_-])?")
_BARE = {
    XSD_INTEGER: re.compile(r"[+-]?[0-9]+"),
    XSD_DECIMAL: re.compile(r"[+-]?[0-9]*\.[0-9]+"),
    XSD_DOUBLE: re.compile(r"[+-]?(?:[0-9]+\.[0-9]*|\.?[0-9]+)[eE][+-]?[0-9]+"),
    XSD_BOOLEAN: re.compile("true|false"),
}
_PLACEHOLDER = re.compile(r"\$[^$]+\$", re.DOTALL)


class Names:
    """The spelling of terms in one text; knows afterwards which prefixes it used.

    A hidden variable is a blank node, ``[]`` where it occurs once. With ``free`` it is a variable
    ``?_1``: for a pattern that is shown and not read back, whose hidden variables may reach over groups.
    """

    def __init__(
        self, prefixes: Mapping[str, str], dialect: Dialect, nodes: object, *, free: bool = False
    ) -> None:
        self.dialect = dialect
        self.used: set[str] = set()
        self.count = Counter(each.name for each in inside(nodes) if isinstance(each, Var))
        self._prefixes = sorted(prefixes.items(), key=lambda item: -len(item[1]))
        self._free = free
        self._hidden: dict[str, str] = {}
        self._iris: dict[NamedNode, str] = {}

    def term(self, term: a.TermPattern | a.Term) -> str:
        """A term of a pattern."""
        match term:
            case Var():
                return self.var(term)
            case NamedNode():
                return self.iri(term)
            case Literal():
                return self.literal(term)
            case Triple(subject=subject, predicate=predicate, object=obj):
                return f"<<( {self.term(subject)} {self.verb(predicate)} {self.term(obj)} )>>"
            case a.TripleTerm(subject, predicate, obj):
                return f"<<( {self.term(subject)} {self.verb(predicate)} {self.term(obj)} )>>"
            case BlankNode():
                return str(term)

    def var(self, var: Var) -> str:
        """A variable, or the blank node that a hidden one stands for."""
        if not var.hidden:
            return f"?{var.name}"
        if not self._free and self.count[var.name] == 1:
            return "[]"
        known = self._hidden.get(var.name)
        if known is None:
            known = self._hidden[var.name] = self._fresh()
        return known

    def _fresh(self) -> str:
        number = len(self._hidden) + 1
        if not self._free:
            return f"_:b{number}"
        prefix = "_"
        while f"{prefix}{number}" in self.count:
            prefix += "_"
        return f"?{prefix}{number}"

    def verb(self, term: NamedNode | Var) -> str:
        """A predicate: ``a`` for rdf:type."""
        return "a" if term == RDF_TYPE else self.term(term)

    def iri(self, iri: NamedNode) -> str:
        """A prefixed name where a declared namespace fits, else the whole IRI."""
        known = self._iris.get(iri)
        if known is None:
            known = self._iris[iri] = self._short(iri.value) or str(iri)
        return known

    def _short(self, iri: str) -> str | None:
        for prefix, namespace in self._prefixes:
            if iri.startswith(namespace) and _LOCAL.fullmatch(iri, len(namespace)):
                self.used.add(prefix)
                return f"{prefix}:{iri[len(namespace) :]}"
        return None

    def literal(self, literal: Literal) -> str:
        """A literal: numbers and truth values bare, a text that looks like a parameter with its datatype."""
        bare = _BARE.get(literal.datatype)
        if bare is not None and bare.fullmatch(literal.value):
            return literal.value
        if literal.language is not None:
            return str(literal)
        if literal.datatype == NamedNode(XSD + "string"):
            placeholder = self.dialect != "sparql" and _PLACEHOLDER.fullmatch(literal.value)
            return f"{literal}^^{self.iri(literal.datatype)}" if placeholder else str(literal)
        return f"{Literal(literal.value)}^^{self.iri(literal.datatype)}"


def inside(node: object) -> Iterator[object]:
    """Everything that anything made of algebra nodes is made of: nodes, expressions, variables and terms."""
    stack = [node]
    while stack:
        each = stack.pop()
        yield each
        if isinstance(each, tuple):
            stack.extend(each)
        elif type(each).__module__ in (a.__name__, _QUERY_MODULE):
            stack.extend(getattr(each, name) for name in getattr(each, "__slots__", ()))


_QUERY_MODULE = WindowDeclaration.__module__


# --- windows


def window_text(window: WindowDeclaration, dialect: Dialect, report: str | None = None) -> str:
    """The brackets of a window as its dialect writes them."""
    spec = window.spec
    match spec.kind:
        case "now" | "all":
            inside = spec.kind.upper()
        case "triples":
            inside = f"TRIPLES {spec.count}"
        case "batch":
            inside = f"RANGE TRIPLES {spec.count}"
        case "elements":
            inside = f"ELEMENTS {spec.count} STEP {spec.step}"
        case "range":
            inside = f"RANGE {duration_text(spec.width_ms, dialect)}"
        case "grid":
            word = "SLIDE" if dialect == "cqels" else "STEP"
            slide = duration_text(spec.slide_ms, dialect)
            inside = f"RANGE {duration_text(spec.width_ms, dialect)} {word} {slide}"
        case _:
            inside = word_of(spec.kind).text(spec)
    if spec.t0_ms is not None:
        inside += f" STARTING AT {spec.t0_ms}"
    if window.lateness_ms is not None:
        lateness = duration_text(window.lateness_ms, dialect) if window.lateness_ms else "0"
        inside += f" LATENESS {lateness}"
    if report is not None:
        inside += f" REPORT {report}"
    return f"[{inside}]"


_UNITS = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1))


def duration_text(milliseconds: int, dialect: Dialect) -> str:
    """A duration: ``1h30m``, in RSP-QL* ``PT1H30M``.

    >>> duration_text(5_400_000, "cqels"), duration_text(90_500, "rspql")
    ('1h30m', 'PT1M30.500S')
    """
    parts: dict[str, int] = {}
    rest = milliseconds
    for unit, size in _UNITS:
        parts[unit], rest = divmod(rest, size)
    if dialect != "rspql":
        return "".join(f"{count}{unit}" for unit, count in parts.items() if count) or "0"
    seconds = f"{parts['s']}.{parts['ms']:03}S" if parts["ms"] else f"{parts['s']}S" if parts["s"] else ""
    hours = f"{parts['h']}H" if parts["h"] else ""
    minutes = f"{parts['m']}M" if parts["m"] else ""
    time = hours + minutes + seconds
    days = f"{parts['d']}D" if parts["d"] else ""
    return f"P{days}" + (f"T{time}" if time else "") if days or time else "PT0S"


_LEVELS = {
    "||": 1, "&&": 2, "=": 3, "!=": 3, "<": 3, ">": 3, "<=": 3, ">=": 3, "IN": 3, "NOT IN": 3,
    "+": 4, "-": 4, "*": 5, "/": 5, "!": 6, "UNARY+": 6, "UNARY-": 6,
}  # fmt: skip
_PRIMARY = 7
_EXTENDED = ("MEDIAN", "STDDEV", "VARIANCE", "PERCENTILE")
_NO_AGGREGATES: Mapping[Var, Aggregate] = {}
T = TypeVar("T")


class ExpressionWriter:
    """Writes expressions; ``group`` gives the lines of the braces of an EXISTS."""

    def __init__(self, names: Names, group: Callable[[Algebra], str]) -> None:
        self._names = names
        self._group = group

    def write(self, expr: Expr, aggregates: Mapping[Var, Aggregate] = _NO_AGGREGATES, level: int = 0) -> str:
        """The text of an expression.

        Args:
            expr: the expression.
            aggregates: the set functions whose values its hidden variables are.
            level: what binds as strongly may stand without brackets.
        """
        match expr:
            case Var():
                computed = aggregates.get(expr)
                return self._names.var(expr) if computed is None else self.aggregate(computed)
            case a.Constant(term):
                return self._names.term(term)
            case a.Exists(pattern, negated):
                return f"{'NOT ' if negated else ''}EXISTS {self._group(pattern)}"
            case a.FunctionCall(iri, args):
                return f"{self._names.iri(iri)}({self._list(args, aggregates)})"
            case Call(name, args):
                own = _LEVELS.get(name, _PRIMARY)
                text = self._call(name, args, aggregates, own)
                return f"({text})" if own < level else text

    def constraint(self, expr: Expr, aggregates: Mapping[Var, Aggregate] = _NO_AGGREGATES) -> str:
        """An expression after FILTER or HAVING."""
        text = self.write(expr, aggregates)
        return text if isinstance(expr, a.Exists) else f"({text})"

    def _list(self, args: tuple[Expr, ...], aggregates: Mapping[Var, Aggregate]) -> str:
        return ", ".join(self.write(arg, aggregates) for arg in args)

    def _call(self, name: str, args: tuple[Expr, ...], aggregates: Mapping[Var, Aggregate], own: int) -> str:
        match name:
            case "||" | "&&":
                chain = chained(cast(Expr, Call(name, args)), lambda each: _operands(each, name), _make(name))
                return f" {name} ".join(self.write(part, aggregates, own + 1) for part in chain)
            case "IN" | "NOT IN":
                left = self.write(args[0], aggregates, own + 1)
                return f"{left} {name} ({self._list(args[1:], aggregates)})"
            case "!":
                return f"!{self.write(args[0], aggregates, own)}"
            case "UNARY-" | "UNARY+":
                return f"{name[-1]}({self.write(args[0], aggregates)})"
            case "+" | "-" | "*" | "/":
                right = self.write(args[1], aggregates, own + 1)
                return f"{self.write(args[0], aggregates, own)} {name} {right}"
            case "TIMESTAMP":
                return f"timestamp({self._list(args, aggregates)})"
            case _ if own < _PRIMARY:
                return f" {name} ".join(self.write(arg, aggregates, own + 1) for arg in args)
            case _:
                return f"{name}({self._list(args, aggregates)})"

    def aggregate(self, aggregate: Aggregate) -> str:
        """A set function; ours go by their IRI where the dialect has no word for them."""
        argument = "*" if aggregate.expr is None else self.write(aggregate.expr)
        inside = f"{'DISTINCT ' if aggregate.distinct else ''}{argument}"
        if aggregate.separator is not None:
            inside += f"; SEPARATOR = {Literal(aggregate.separator)}"
        alone = None
        if aggregate.parameter is not None and self._names.dialect == "sparql":
            alone = percentile_iri(aggregate.parameter)
        if alone is not None:
            return f"{alone}({inside})"
        if aggregate.parameter is not None:
            inside += f", {self.write(aggregate.parameter)}"
        name = aggregate.name
        if name in _EXTENDED and self._names.dialect == "sparql":
            name = f"<{AGGREGATE_NAMESPACE}{name.lower()}>"
        return f"{name}({inside})"

    def path(self, path: a.PathExpr, level: int = 0) -> str:
        """A property path; ``level`` as for expressions."""
        own, text = self._path(path)
        return f"({text})" if own < level else text

    def _path(self, path: a.PathExpr) -> tuple[int, str]:
        match path:
            case a.Link(iri):
                return 5, self._names.verb(iri)
            case a.Alternative():
                options = chained(cast(a.PathExpr, path), _alternatives, a.Alternative)
                return 1, "|".join(self.path(each, 2) for each in options)
            case a.Sequence():
                steps = chained(cast(a.PathExpr, path), _steps, a.Sequence)
                return 2, "/".join(self.path(each, 3) for each in steps)
            case a.Inverse(inner):
                return 3, f"^{self.path(inner, 4)}"
            case a.ZeroOrMore(inner):
                return 4, f"{self.path(inner, 5)}*"
            case a.OneOrMore(inner):
                return 4, f"{self.path(inner, 5)}+"
            case a.ZeroOrOne(inner):
                return 4, f"{self.path(inner, 5)}?"
            case a.NegatedSet(forward, inverse):
                members = [self._names.verb(iri) for iri in forward]
                members += [f"^{self._names.verb(iri)}" for iri in inverse]
                return 5, f"!{members[0]}" if len(members) == 1 else f"!({'|'.join(members)})"


def _operands(expr: Expr, name: str) -> tuple[Expr, Expr] | None:
    return (expr.args[0], expr.args[1]) if isinstance(expr, Call) and expr.name == name else None


def _make(name: str) -> Callable[[Expr, Expr], Expr]:
    return lambda left, right: Call(name, (left, right))


def _alternatives(path: a.PathExpr) -> tuple[a.PathExpr, a.PathExpr] | None:
    return (path.left, path.right) if isinstance(path, a.Alternative) else None


def _steps(path: a.PathExpr) -> tuple[a.PathExpr, a.PathExpr] | None:
    return (path.left, path.right) if isinstance(path, a.Sequence) else None


def chained(node: T, operands: Callable[[T], tuple[T, T] | None], combine: Callable[[T, T], T]) -> list[T]:
    """The operands that, written one after the other, are read as ``node`` again (`triples.fold`)."""
    spine: list[T] = []
    rest = node
    while (pair := operands(rest)) is not None:
        rest, right = pair
        spine.append(right)
    spine.append(rest)
    spine.reverse()
    leaves: list[T] = []
    stack = [node]
    while stack:
        each = stack.pop()
        pair = operands(each)
        if pair is None:
            leaves.append(each)
        else:
            stack += (pair[1], pair[0])
    if len(leaves) > CHAIN and fold(combine, leaves) == node:
        return leaves
    if len(spine) <= CHAIN:
        return spine
    pair = operands(node)
    assert pair is not None
    return list(pair)
