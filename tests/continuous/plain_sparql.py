"""SPARQL in plain Python, for tests: the definitions of section 18 over lists of solutions.

It shares the parser with the product, and no rewriting, plan or engine. A solution is a dict from names to
terms; ``"@v"`` is the greatest event time of the window triples that bind ?v in it, for C-SPARQL's
``timestamp(?v)``. It knows what the random texts of the tests use, and fails at anything else.
"""

from __future__ import annotations

import calendar
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from pyoxigraph import DefaultGraph, Literal, NamedNode, Quad

from quadrill.continuous.algebra import nodes as n
from quadrill.continuous.algebra.build import map_expression
from quadrill.continuous.algebra.nodes import Algebra, Expr
from quadrill.continuous.algebra.variables import in_scope

XSD = "http://www.w3.org/2001/XMLSchema#"
Solution = dict[str, Any]
Row = tuple[Any, ...]
Triples = Mapping[Row, int]


class FailedError(Exception):
    """An expression has no value."""


@dataclass(frozen=True)
class Moment:
    """The background dataset and what each window holds (quads with event times) at an instant."""

    at: int
    background: frozenset[Quad]
    windows: Mapping[NamedNode, Mapping[Quad, int]]


def evaluate(root: Algebra, columns: Iterable[n.Var], moment: Moment) -> Counter[Row]:
    """The rows of a query's algebra, as the parser gives it, at an instant."""
    found = _Evaluation(moment).solutions(root, Place(_union(moment.background, default_only=True)))
    return Counter(tuple(_plain_text(each.get(var.name)) for var in columns) for each in found)


def _plain_text(term: Any) -> Any:
    """A language tag as the text that it is; other terms as they are."""
    return Literal(str(term)) if isinstance(term, Tag) else term


@dataclass(frozen=True)
class Place:
    """The active graph, as triples with event times (-1: none), inside a window or not."""

    triples: Triples
    window: NamedNode | None = None


def _union(quads: Iterable[Quad], *, default_only: bool = False) -> dict[Row, int]:
    found: dict[Row, int] = {}
    for quad in quads:
        if not default_only or isinstance(quad.graph_name, DefaultGraph):
            found[(quad.subject, quad.predicate, quad.object)] = -1
    return found


class _Evaluation:
    def __init__(self, moment: Moment) -> None:
        self.moment = moment

    def solutions(self, node: Algebra, place: Place) -> list[Solution]:
        """The multiset of solutions of a pattern."""
        match node:
            case n.Bgp(patterns):
                found: list[Solution] = [{}]
                for pattern in patterns:
                    found = [new for each in found for new in self._matches(pattern, each, place)]
                return found
            case n.Join(left, right):
                return _joined(self.solutions(left, place), self.solutions(right, place))
            case n.Union(left, right):
                return self.solutions(left, place) + self.solutions(right, place)
            case n.Minus(left, right):
                others = self.solutions(right, place)
                return [
                    each
                    for each in self.solutions(left, place)
                    if not any(_common(each, other) and _compatible(each, other) for other in others)
                ]
            case n.LeftJoin(left, right, condition):
                others, result = self.solutions(right, place), []
                for each in self.solutions(left, place):
                    both = [
                        row
                        for row in _joined([each], others)
                        if condition is None or self._holds(condition, row, place)
                    ]
                    result += both or [each]
                return result
            case n.Filter(condition, inner):
                return [each for each in self.solutions(inner, place) if self._holds(condition, each, place)]
            case n.Extend(inner, var, expr):
                return [self._extended(each, var, expr, place) for each in self.solutions(inner, place)]
            case n.Values(variables, rows):
                return [
                    {var.name: term for var, term in zip(variables, row, strict=True) if term is not None}
                    for row in rows
                ]
            case n.Window(name, inner, None) if isinstance(name, NamedNode):
                triples: dict[Row, int] = {}
                for quad, time in self.moment.windows[name].items():
                    triple = (quad.subject, quad.predicate, quad.object)
                    triples[triple] = max(time, triples.get(triple, time))
                return self.solutions(inner, Place(triples, name))
            case n.Graph(name, inner):
                return self._graph(name, inner)
            case n.Project(inner, variables):
                kept = {var.name for var in variables} | {f"@{var.name}" for var in variables}
                return [
                    {key: each[key] for key in each.keys() & kept} for each in self.solutions(inner, place)
                ]
            case n.Group(inner, keys, aggregates):
                return self._group(self.solutions(inner, place), keys, aggregates, place)
        raise NotImplementedError(node)

    def _matches(self, pattern: n.TriplePattern, row: Solution, place: Place) -> Iterable[Solution]:
        terms = (pattern.subject, pattern.predicate, pattern.object)
        for triple, time in place.triples.items():
            new = dict(row)
            for term, value in zip(terms, triple, strict=True):
                if new.setdefault(term.name, value) != value if isinstance(term, n.Var) else term != value:
                    break
            else:
                for term in terms:
                    if isinstance(term, n.Var) and time >= 0:
                        new[f"@{term.name}"] = max(time, new.get(f"@{term.name}", time))
                yield new

    def _graph(self, name: NamedNode | n.Var, inner: Algebra) -> list[Solution]:
        graphs = {each.graph_name for each in self.moment.background} - {DefaultGraph()}
        found: list[Solution] = []
        for graph in graphs:
            if isinstance(name, n.Var) or graph == name:
                quads = [each for each in self.moment.background if each.graph_name == graph]
                rows = self.solutions(inner, Place(_union(quads)))
                found += _joined(rows, [{name.name: graph}]) if isinstance(name, n.Var) else rows
        return found

    def _extended(self, row: Solution, var: n.Var, expr: Expr, place: Place) -> Solution:
        try:
            return {**row, var.name: _term(self._value(expr, row, place))}
        except FailedError:
            return row

    def _group(
        self, rows: list[Solution], keys: tuple[n.Var, ...], aggregates: Any, place: Place
    ) -> list[Solution]:
        groups: dict[Row, list[Solution]] = {} if keys else {(): []}
        for row in rows:
            groups.setdefault(tuple(row.get(key.name) for key in keys), []).append(row)
        found = []
        for key, members in groups.items():
            result = {var.name: term for var, term in zip(keys, key, strict=True) if term is not None}
            for var, aggregate in aggregates:
                assert aggregate.name == "COUNT" and aggregate.expr is None
                shown = [frozenset((k, v) for k, v in each.items() if k[0] not in "@_") for each in members]
                count = len(set(shown)) if aggregate.distinct else len(shown)
                result[var.name] = _term(count)
            found.append(result)
        return found

    # --- expressions ------------------------------------------------------------------------------

    def _holds(self, condition: Expr, row: Solution, place: Place) -> bool:
        try:
            return _truth(self._value(condition, row, place))
        except FailedError:
            return False

    def _value(self, expr: Expr, row: Solution, place: Place) -> Any:
        match expr:
            case n.Var(name):
                return self._of_row(row, name)
            case n.Constant(term):
                return _plain(term)
            case n.Exists(pattern, negated):
                found = self.solutions(substituted(pattern, row), place)
                return bool(found) != negated
            case n.Call("NOW", ()):
                return datetime.fromtimestamp(self.moment.at / 1000, UTC)
            case n.Call("TIMESTAMP", (n.Var(name),)):
                return self._of_row(row, f"@{name}")
            case n.Call("BOUND", (n.Var(name),)):
                return name in row
            case n.Call("&&" | "||" as name, args):
                return self._logical(name == "||", args, row, place)
            case n.Call("!", (inner,)):
                return not _truth(self._value(inner, row, place))
            case n.Call("COALESCE", args):
                for each in args:
                    try:
                        return self._value(each, row, place)
                    except FailedError:
                        continue
                raise FailedError
            case n.Call("LANG", (inner,)):
                value = self._value(inner, row, place)
                if isinstance(value, NamedNode):
                    raise FailedError
                return Tag(value.language.lower() if isinstance(value, Literal) and value.language else "")
            case n.Call("IN" | "NOT IN" as name, (first, *others)):
                equal = [n.Call("=", (first, each)) for each in others]
                return self._logical(True, equal, row, place) != (name == "NOT IN")
            case n.Call("STRSTARTS", args):
                text, start = (self._value(each, row, place) for each in args)
                if not isinstance(text, str) or not isinstance(start, str):
                    raise FailedError
                return text.lower().startswith(start.lower())
            case n.Call(name, args) if name in _OPERATORS:
                return _operated(name, *(self._value(each, row, place) for each in args))
        raise NotImplementedError(expr)

    def _of_row(self, row: Solution, name: str) -> Any:
        if name not in row:
            raise FailedError
        return _plain(row[name])

    def _logical(self, decides: bool, args: Iterable[Expr], row: Solution, place: Place) -> bool:
        failed = False
        for each in args:
            try:
                if _truth(self._value(each, row, place)) is decides:
                    return decides
            except FailedError:
                failed = True
        if failed:
            raise FailedError
        return not decides


def substituted(node: Algebra, row: Solution) -> Algebra:
    """The pattern with the row's values in the places of its variables (section 18.6).

    A sub-query has variables of its own besides those that it shows. Where a BIND, VALUES or GRAPH binds a
    substituted variable the pattern is joined with the row instead.
    """
    match node:
        case n.Bgp(patterns):
            return n.Bgp(tuple(_in_triple(each, row) for each in patterns))
        case n.Join(left, right) | n.Union(left, right) | n.Minus(left, right):
            return replace(node, left=substituted(left, row), right=substituted(right, row))
        case n.LeftJoin(left, right, condition):
            new = condition and _in_expression(condition, row)
            return n.LeftJoin(substituted(left, row), substituted(right, row), new)
        case n.Filter(condition, inner):
            return n.Filter(_in_expression(condition, row), substituted(inner, row))
        case n.Extend(inner, var, expr) if var.name not in row:
            return n.Extend(substituted(inner, row), var, _in_expression(expr, row))
        case n.Window() | n.Graph() if not isinstance(node.name, n.Var) or node.name.name not in row:
            return replace(node, input=substituted(node.input, row))
        case n.Graph(name, inner) if isinstance(name, n.Var):
            return n.Graph(row[name.name], substituted(inner, row))
        case n.Values():
            return n.Join(node, _fixed({k: v for k, v in row.items() if k in in_scope(node)}))
        case n.Project(inner, variables):
            shown = {var.name for var in variables}
            kept = {k: v for k, v in row.items() if k.lstrip("@") in shown}
            return n.Project(substituted(inner, kept), variables)
        case n.Group(inner, keys, aggregates):
            shown = {var.name for var in keys}
            kept = {k: v for k, v in row.items() if k.lstrip("@") in shown}
            return n.Group(substituted(inner, kept), tuple(k for k in keys if k.name not in kept), aggregates)
    raise NotImplementedError(node)


def _fixed(row: Solution) -> Algebra:
    return n.Values(tuple(map(n.Var, row)), (tuple(row.values()),))


def _in_triple(pattern: n.TriplePattern, row: Solution) -> n.TriplePattern:
    terms = (pattern.subject, pattern.predicate, pattern.object)
    new: list[Any] = [row.get(each.name, each) if isinstance(each, n.Var) else each for each in terms]
    return n.TriplePattern(*new)


def _in_expression(expr: Expr, row: Solution) -> Expr:
    def change(each: Expr) -> Expr | None:
        match each:
            case n.Var(name) if name in row:
                return n.Constant(row[name])
            case n.Call("BOUND", (n.Var(name),)) if name in row:
                return n.Constant(_term(True))
            case n.Call("TIMESTAMP", (n.Var(name),)) if f"@{name}" in row:
                return n.Constant(_term(row[f"@{name}"]))
            case n.Exists(pattern, negated):
                return n.Exists(substituted(pattern, row), negated)
        return None

    return map_expression(expr, change)


def _joined(left: list[Solution], right: list[Solution]) -> list[Solution]:
    found = []
    for each in left:
        for other in right:
            if _compatible(each, other):
                both = {**each, **other}
                for key in each.keys() & other.keys():
                    if key[0] == "@":
                        both[key] = max(each[key], other[key])
                found.append(both)
    return found


def _common(left: Solution, right: Solution) -> bool:
    return any(key[0] != "@" for key in left.keys() & right.keys())


def _compatible(left: Solution, right: Solution) -> bool:
    return all(left[key] == right[key] for key in left.keys() & right.keys() if key[0] != "@")


class Tag(str):
    """A language tag, which is compared without case."""


@dataclass(frozen=True)
class Duration:
    """Months and seconds, as of xsd:duration."""

    months: int
    seconds: int


_DURATION = re.compile(r"(-?)P(?:(\d+)Y)?(?:(\d+)M)?(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?")


def _duration(text: str) -> Duration:
    match = _DURATION.fullmatch(text)
    assert match is not None
    years, months, days, hours, minutes, seconds = (int(each or 0) for each in match.groups()[1:])
    sign = -1 if match[1] else 1
    seconds += 86_400 * days + 3_600 * hours + 60 * minutes
    return Duration(sign * (12 * years + months), sign * seconds)


def _moved(moment: datetime, by: Duration, sign: int) -> datetime:
    """XPath and XQuery Functions and Operators 3.1, section 9.7.5: months first, then the seconds."""
    count = moment.year * 12 + moment.month - 1 + sign * by.months
    year, month = count // 12, count % 12 + 1
    day = min(moment.day, calendar.monthrange(year, month)[1])
    return moment.replace(year=year, month=month, day=day) + timedelta(seconds=sign * by.seconds)


def _plain(term: Any) -> Any:
    if isinstance(term, Literal):
        match term.datatype.value.removeprefix(XSD):
            case "string":
                return term.value
            case "duration" | "dayTimeDuration" | "yearMonthDuration":
                return _duration(term.value)
            case "integer":
                return int(term.value)
            case "boolean":
                return term.value == "true"
            case "dateTime":
                return datetime.fromisoformat(term.value)
    return term


def _term(value: Any) -> Any:
    if isinstance(value, bool):
        return Literal("true" if value else "false", datatype=NamedNode(XSD + "boolean"))
    if isinstance(value, int):
        return Literal(str(value), datatype=NamedNode(XSD + "integer"))
    if isinstance(value, str) and not isinstance(value, Tag):
        return Literal(value)
    if isinstance(value, datetime):
        text = value.isoformat().replace("+00:00", "Z")
        return Literal(text, datatype=NamedNode(XSD + "dateTime"))
    return value


def _truth(value: Any) -> bool:
    if isinstance(value, bool | int):
        return bool(value)
    raise FailedError


_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "=": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    ">": lambda a, b: a > b,
    "<=": lambda a, b: a <= b,
    ">=": lambda a, b: a >= b,
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
}


def _operated(name: str, left: Any, right: Any) -> Any:
    moment, length = (left, right) if isinstance(left, datetime) else (right, left)
    if isinstance(moment, datetime) and isinstance(length, Duration):
        if name == "+" or (name == "-" and moment is left):
            return _moved(moment, length, 1 if name == "+" else -1)
    if Tag in (type(left), type(right)) and isinstance(left, str) and isinstance(right, str):
        left, right = left.lower(), right.lower()
    kind = type(left)
    if kind is not type(right) or (kind not in (int, datetime) and name not in ("=", "!=")):
        # A literal with a language equals no other one (docs/sparql.md).
        if name in ("=", "!=") and {NamedNode, Literal} & {kind, type(right)}:
            return name == "!="
        raise FailedError
    return _OPERATORS[name](left, right)
