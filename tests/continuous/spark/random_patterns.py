"""Random data and random sub-queries over it, for comparisons of Spark with the store."""

from __future__ import annotations

from random import Random
from typing import Any

from pyoxigraph import BlankNode, DefaultGraph, Literal, NamedNode, Quad, Triple

from quadrill.continuous.algebra import nodes as n
from quadrill.continuous.algebra.variables import in_scope

XSD = "http://www.w3.org/2001/XMLSchema#"
PREDICATES = [NamedNode(f"http://ex.org/p{k}") for k in range(5)]
NODES = [NamedNode(f"http://ex.org/n{k}") for k in range(6)]
GRAPHS = [NamedNode("http://ex.org/g1"), NamedNode("http://ex.org/g2")]
VARS = [n.Var(name) for name in "abcdE"]


def typed(text: str, name: str) -> Literal:
    """A literal of an XML Schema type."""
    return Literal(text, datatype=NamedNode(XSD + name))


NUMBERS = [typed(str(k), "integer") for k in (-3, 0, 1, 2, 7)]
NUMBERS += [typed("1.5", "decimal"), typed("2", "decimal")]
DOUBLES = [typed("1.5", "double"), typed("2", "double"), typed("NaN", "double"), typed("INF", "double")]
TIMES = [
    typed("2020-01-01T00:00:00Z", "dateTime"),
    typed("2020-01-01T01:00:00+01:00", "dateTime"),
    typed("2021-06-01T12:30:00.5Z", "dateTime"),
]
DATES = [typed("2020-01-01", "date"), typed("2021-01-01", "date")]
ODD = [
    Literal('a "quoted"\n text'),
    Literal("x"),
    Literal("x", language="en"),
    typed("true", "boolean"),
    typed("1", "float"),
    typed("2020-01-01T00:00:00", "dateTime"),
    typed("abc", "integer"),
    Literal("é\u2028\x01"),
    Triple(NODES[0], PREDICATES[0], Literal("q")),
]
BLANKS = [BlankNode("b1"), BlankNode("b2")]
OBJECTS = {
    0: [*NODES, BLANKS[0]],
    1: NUMBERS,
    2: [*NUMBERS, *DOUBLES, Literal("x"), NODES[0]],
    3: [*TIMES, *DATES, *NODES[:2]],
    4: [*NODES, *NUMBERS, *DOUBLES, *TIMES, *ODD],
}
"""What the objects of each predicate are: the compiler works by that."""


def random_quads(random: Random, count: int) -> list[Quad]:
    """Quads, some of them twice."""
    quads = []
    for _ in range(count):
        place = random.randrange(len(PREDICATES))
        graph = random.choice([DefaultGraph(), DefaultGraph(), *GRAPHS])
        subject = random.choice([*NODES, *BLANKS])
        quads.append(Quad(subject, PREDICATES[place], random.choice(OBJECTS[place]), graph))
    return quads


class Patterns:
    """Makes random patterns.

    Args:
        random: where the choices come from.
    """

    def __init__(self, random: Random) -> None:
        self.random = random
        self._fresh = 0

    def pattern(self, depth: int) -> n.Algebra:
        """A pattern of so many operators."""
        if depth == 0:
            return self._leaf()
        inner = self.pattern(depth - 1)
        other = self.pattern(self.random.randint(0, max(0, depth - 2)))
        kind = self.random.choice(
            "join left left-if minus union filter filter filter exists extend distinct group group having "
            "slice project values graph".split()
        )
        names = [n.Var(name) for name in sorted(in_scope(inner)) if not name.startswith("_:")]
        match kind:
            case "join":
                return n.Join(inner, other)
            case "left":
                return n.LeftJoin(inner, other)
            case "left-if":
                return n.LeftJoin(inner, other, self.condition(in_scope(inner) | in_scope(other)))
            case "minus":
                return n.Minus(inner, other)
            case "union":
                return n.Union(inner, other)
            case "filter":
                return n.Filter(self.condition(in_scope(inner)), inner)
            case "exists":
                return n.Filter(self._exists(), inner)
            case "extend":
                self._fresh += 1
                return n.Extend(inner, n.Var(f"x{self._fresh}"), self.expression(in_scope(inner)))
            case "distinct" if names:
                return n.Distinct(n.Project(inner, self._some(names)))
            case "project" if names:
                return n.Project(inner, self._some(names))
            case "slice" if names:
                return self._slice(inner, names)
            case "values":
                return n.Join(inner, self._values())
            case "group" | "having":
                return self._group(inner, names, having=kind == "having")
            case "graph" if isinstance(inner, (n.Bgp, n.Path)):
                return n.Graph(self.random.choice([*GRAPHS, n.Var("g"), n.Var("a")]), inner)
        return inner

    def condition(self, names: frozenset[str]) -> n.Expr:
        """A boolean expression, most often over the names."""
        random = self.random
        match random.randrange(9):
            case 0:
                return n.Call("BOUND", (self._var(names),))
            case 1:
                return n.Call("!", (self.condition(names),))
            case 2 | 3:
                return n.Call(random.choice(["&&", "||"]), (self.condition(names), self.condition(names)))
            case 4:
                return n.Call("ISLITERAL", (self._var(names),))
            case _:
                operator = random.choice(["=", "!=", "<", "<=", ">", ">=", "SAMETERM"])
                return n.Call(operator, (self._var(names), self._operand(names)))

    def expression(self, names: frozenset[str]) -> n.Expr:
        """A value."""
        random = self.random
        match random.randrange(6):
            case 0:
                return n.Call(random.choice("+-*/"), (self._var(names), self._operand(names)))
            case 1:
                return n.Call("STR", (self._var(names),))
            case 2:
                return n.Call("COALESCE", (self._var(names), n.Constant(NODES[0])))
            case 3:
                return n.Call("IF", (self.condition(names), self._var(names), n.Constant(NUMBERS[1])))
            case 4:
                return self._var(names)
            case _:
                return self.condition(names)

    def _leaf(self) -> n.Algebra:
        if self.random.random() < 0.2:
            return n.Path(self._place(), self._path(2), self._place())
        return n.Bgp(tuple(self._triple() for _ in range(self.random.randint(1, 2))))

    def _triple(self) -> n.TriplePattern:
        subject, object_ = self._place(), self._place()
        if self.random.random() < 0.1:
            object_ = self.random.choice([NUMBERS[2], typed("01", "integer"), TIMES[0]])
        return n.TriplePattern(subject, self.random.choice([*PREDICATES, *PREDICATES, n.Var("p")]), object_)

    def _place(self) -> Any:
        return self.random.choice(VARS) if self.random.random() < 0.85 else self.random.choice(NODES)

    def _path(self, depth: int) -> n.PathExpr:
        random = self.random
        link = n.Link(random.choice(PREDICATES))
        if not depth:
            return link
        inner = self._path(depth - 1)
        match random.randrange(8):
            case 0:
                return n.Inverse(inner)
            case 1 | 2:
                return n.Sequence(inner, link)
            case 3:
                return n.Alternative(inner, link)
            case 4:
                return n.ZeroOrOne(inner)
            case 5:
                return n.OneOrMore(inner)
            case 6:
                return n.ZeroOrMore(inner)
            case _:
                return n.NegatedSet(tuple(PREDICATES[:2]), random.choice([(), (PREDICATES[4],)]))

    def _exists(self) -> n.Exists:
        pattern: n.Algebra = self._leaf()
        if self.random.random() < 0.4:
            pattern = n.Filter(self.condition(frozenset("abcdE")), pattern)
        return n.Exists(pattern, negated=self.random.random() < 0.5)

    def _values(self) -> n.Values:
        variables = tuple(self.random.sample(VARS, 2))
        terms = [*NODES, *NUMBERS, None]
        return n.Values(
            variables, tuple((self.random.choice(terms), self.random.choice(terms)) for _ in range(2))
        )

    def _slice(self, inner: n.Algebra, names: list[n.Var]) -> n.Algebra:
        conditions = tuple(
            n.OrderCondition(self.random.choice(names), self.random.random() < 0.5)
            for _ in range(self.random.randint(0, 2))
        )
        ordered: n.Algebra = n.OrderBy(inner, conditions) if conditions else inner
        return n.Slice(
            n.Project(ordered, tuple(names)), self.random.randint(0, 2), self.random.choice([None, 1, 3])
        )

    def _group(self, inner: n.Algebra, names: list[n.Var], *, having: bool) -> n.Algebra:
        random = self.random
        keys = tuple(random.sample(names, min(len(names), random.randint(0, 2))))
        self._fresh += 1
        count = n.Var(f"n{self._fresh}")
        aggregates = [(count, n.Aggregate("COUNT", None, distinct=random.random() < 0.3))]
        if names:
            for name in random.sample(["COUNT", "SUM", "AVG", "MIN", "MAX", "SAMPLE", "GROUP_CONCAT"], 2):
                expr: n.Expr = random.choice(names)
                if random.random() < 0.3:
                    expr = self.expression(in_scope(inner))
                var = n.Var(f"{name.lower()}{self._fresh}")
                aggregates.append((var, n.Aggregate(name, expr, distinct=random.random() < 0.4)))
        group: n.Algebra = n.Group(inner, keys, tuple(aggregates))
        if having:
            bound = n.Constant(NUMBERS[random.choice([2, 3])])
            group = n.Filter(n.Call(random.choice([">", "<=", "="]), (count, bound)), group)
        return n.Project(group, (*keys, *(var for var, _ in aggregates)))

    def _some(self, names: list[n.Var]) -> tuple[n.Var, ...]:
        return tuple(self.random.sample(names, self.random.randint(1, len(names))))

    def _var(self, names: frozenset[str]) -> n.Var:
        return n.Var(self.random.choice(sorted(names) or ["a"]))

    def _operand(self, names: frozenset[str]) -> n.Expr:
        constants = [*NODES[:2], *NUMBERS, *DOUBLES, *TIMES, *DATES, *ODD[:4]]
        if self.random.random() < 0.4:
            return self._var(names)
        return n.Constant(self.random.choice(constants))
