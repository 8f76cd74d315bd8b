"""Every operator's step is the change of its whole-relation form."""

import ast
from collections import Counter
from collections.abc import Callable
from itertools import product
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyoxigraph import BlankNode, Literal, NamedNode, Triple

from benchmarks.policies import route
from quadrill.continuous.algebra.nodes import Aggregate as AggregateNode
from quadrill.continuous.algebra.nodes import Constant as ConstantNode
from quadrill.continuous.algebra.nodes import TermPattern, TripleTerm, Var
from quadrill.continuous.algebra.order import Descending, total_key
from quadrill.continuous.algebra.set_functions import STANDARD, set_function
from quadrill.continuous.expressions.aggregates import Tools, accumulator_factory
from quadrill.continuous.expressions.values import OrderKeys, ValueTable
from quadrill.continuous.operators.closure import Closure
from quadrill.continuous.operators.grouping import Aggregation, GroupAggregate
from quadrill.continuous.operators.join import DeltaJoin
from quadrill.continuous.operators.linear import (
    AddColumn,
    ConstantRows,
    Deduplicate,
    Projection,
    RowFilter,
    Scan,
    Select,
    UnionAll,
)
from quadrill.continuous.operators.matching import Match, Mode
from quadrill.continuous.operators.ordering import TopK
from quadrill.continuous.operators.star import Star
from quadrill.continuous.rows import Delta, IdRow, PinnedIds, Schema, add
from quadrill.store.dictionary import TermDictionary
from tests.examples import examples

from .laws import bags, histories, obeys_its_law, rows, sets, weighted, z_sets

XSD = "http://www.w3.org/2001/XMLSchema#"
AB = Schema(("a", "b"), frozenset("a"))
BC = Schema(("b", "c"), frozenset("c"))
ABC = Schema(("a", "b", "c"), frozenset("abc"))
FIRST_TWO = itemgetter(0, 1)
CERTAIN_AB = Schema(("a", "b"), frozenset("ab"))
CERTAIN_BC = Schema(("b", "c"), frozenset("bc"))


@settings(deadline=None)
@given(histories(z_sets([True, False])))
def test_filter(states: list[tuple[Delta, ...]]) -> None:
    def whole(relation: Delta) -> Delta:
        return {row: weight for row, weight in relation.items() if row[0] > row[1]}

    obeys_its_law(lambda: RowFilter(AB, lambda row: row[0] > row[1]), whole, states)


@settings(deadline=None)
@given(histories(z_sets([True, False])))
def test_extend(states: list[tuple[Delta, ...]]) -> None:
    def whole(relation: Delta) -> Delta:
        return {(*row, row[0] + row[1]): weight for row, weight in relation.items()}

    obeys_its_law(lambda: AddColumn(ABC, lambda row: row[0] + row[1]), whole, states)


@settings(deadline=None)
@given(histories(z_sets([True, False])))
def test_project(states: list[tuple[Delta, ...]]) -> None:
    def whole(relation: Delta) -> Delta:
        out: Delta = {}
        for row, weight in relation.items():
            add(out, (row[1], 0), weight)
        return out

    obeys_its_law(lambda: Projection(Schema(("b", "x")), (1, -1)), whole, states)


@settings(deadline=None)
@given(histories(z_sets([True, False]), z_sets([False, True])))
def test_union(states: list[tuple[Delta, ...]]) -> None:
    def whole(left: Delta, right: Delta) -> Delta:
        out: Delta = {}
        for row, weight in left.items():
            add(out, (*row, 0), weight)
        for row, weight in right.items():
            add(out, (0, *row), weight)
        return out

    obeys_its_law(lambda: UnionAll(ABC, (0, 1, -1), (-1, 0, 1)), whole, states)


def test_constant_rows_are_given_once() -> None:
    operator = ConstantRows(AB, {(1, 2): 2})
    assert operator.step() == {(1, 2): 2}
    assert operator.step() == {}
    assert operator.size() == 1
    assert list(operator.referenced_rows()) == [(1, 2)]


@settings(deadline=None)
@given(histories(bags([True, False])))
def test_distinct(states: list[tuple[Delta, ...]]) -> None:
    obeys_its_law(lambda: Deduplicate(AB), lambda relation: dict.fromkeys(relation, 1), states)


def solutions(schema: Schema, relation: Delta) -> list[tuple[dict[str, int], int]]:
    return [
        ({name: cell for name, cell in zip(schema.vars, row, strict=True) if cell}, weight)
        for row, weight in relation.items()
    ]


def compatible(left: dict[str, int], right: dict[str, int]) -> bool:
    return all(left[name] == right[name] for name in left.keys() & right.keys())


def row_of(schema: Schema, solution: dict[str, int]) -> IdRow:
    return tuple(solution.get(name, 0) for name in schema.vars)


def ordered_join(inputs: list[Schema], order: list[int] | None) -> DeltaJoin:
    """A join that looks its inputs up in an order, by default in the one that it chooses."""
    join = DeltaJoin(inputs)
    return join if order is None else route(join, order)


def naive_join(out: Schema, inputs: list[tuple[Schema, Delta]]) -> Delta:
    found: list[tuple[dict[str, int], int]] = [({}, 1)]
    for schema, relation in inputs:
        found = [
            (left | right, weight * count)
            for left, weight in found
            for right, count in solutions(schema, relation)
            if compatible(left, right)
        ]
    result: Delta = {}
    for solution, weight in found:
        add(result, row_of(out, solution), weight)
    return result


@pytest.mark.parametrize("order", [None, [0, 1], [1, 0]])
@pytest.mark.parametrize(
    ("left", "right"), [(AB, BC), (CERTAIN_AB, CERTAIN_BC), (AB, AB), (AB, Schema(("d",)))]
)
def test_join_of_two(left: Schema, right: Schema, order: list[int] | None) -> None:
    @settings(deadline=None, max_examples=examples(40))
    @given(
        histories(
            z_sets([name in left.certain for name in left.vars]),
            z_sets([name in right.certain for name in right.vars]),
        )
    )
    def law(states: list[tuple[Delta, ...]]) -> None:
        join = DeltaJoin([left, right])
        obeys_its_law(
            lambda: ordered_join([left, right], order),
            lambda *relations: naive_join(join.schema, list(zip([left, right], relations, strict=True))),
            states,
        )

    law()


@pytest.mark.parametrize("order", [None, [0, 1, 2], [2, 1, 0], [1, 2, 0]])
def test_join_of_three_in_any_order_of_look_ups(order: list[int] | None) -> None:
    inputs = [AB, CERTAIN_BC, Schema(("c", "a"), frozenset("ca"))]

    @settings(deadline=None, max_examples=examples(40))
    @given(histories(z_sets([True, False]), z_sets([True, True]), z_sets([True, True])))
    def law(states: list[tuple[Delta, ...]]) -> None:
        join = DeltaJoin(inputs)
        obeys_its_law(
            lambda: ordered_join(inputs, order),
            lambda *relations: naive_join(join.schema, list(zip(inputs, relations, strict=True))),
            states,
        )

    law()


def test_an_event_that_enters_both_inputs_joins_itself_once() -> None:
    join = DeltaJoin([CERTAIN_AB, CERTAIN_AB])
    assert join.step({(1, 2): 1}, {(1, 2): 1}) == {(1, 2): 1}
    assert join.step({(1, 2): -1}, {(1, 2): -1}) == {(1, 2): -1}
    assert join.size() == 0


def naive_match(
    mode: Mode, left: Schema, right: Schema, residual: bool, out: Schema, a: Delta, b: Delta
) -> Delta:
    result: Delta = {}
    for mine, weight in solutions(left, a):
        matches = [
            (mine | other, count)
            for other, count in solutions(right, b)
            if compatible(mine, other)
            and (mode != "minus" or mine.keys() & other.keys())
            and (not residual or (mine | other).get("a", 0) < (mine | other).get("c", 0))
        ]
        match mode:
            case "left":
                for merged, count in matches or [(mine, 1)]:
                    add(result, row_of(out, merged), weight * count)
            case "semi" if matches:
                add(result, row_of(out, mine), weight)
            case "anti" | "minus" if not matches:
                add(result, row_of(out, mine), weight)
            case "mark":
                add(result, row_of(out, mine | {"m": 8 if matches else 9}), weight)
    return result


SHAPES = [
    (AB, BC),
    (CERTAIN_AB, CERTAIN_BC),
    (AB, CERTAIN_BC),
    (CERTAIN_AB, Schema(("c",), frozenset("c"))),
    (AB, AB),
]


@pytest.mark.parametrize("mode", ["left", "minus", "semi", "anti", "mark"])
@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize(("left", "right"), SHAPES)
def test_matching(mode: Mode, left: Schema, right: Schema, residual: bool) -> None:
    if mode == "minus" and residual:
        return

    def less(row: IdRow, other: IdRow) -> bool:
        cells = dict(zip(right.vars, other, strict=True)) | dict(zip(left.vars, row, strict=True))
        return cells.get("a", 0) < cells.get("c", 0)

    def make() -> Match:
        return Match(mode, left, right, less if residual else None, mark="m", true_id=8, false_id=9)

    @settings(deadline=None, max_examples=examples(50))
    @given(
        histories(
            bags([name in left.certain for name in left.vars]),
            bags([name in right.certain for name in right.vars]),
        )
    )
    def law(states: list[tuple[Delta, ...]]) -> None:
        schema = make().schema
        obeys_its_law(make, lambda a, b: naive_match(mode, left, right, residual, schema, a, b), states)

    law()


def _node(number: int) -> NamedNode:
    return NamedNode(f"urn:{number}")


def _terms() -> TermDictionary:
    """Ids 1 to 3 are IRIs, 4 is << 1 2 3 >> and 5 is << 1 2 1 >>."""
    terms = TermDictionary()
    nodes = [_node(number) for number in (1, 2, 3)]
    made = [*nodes, Triple(*nodes), Triple(nodes[0], nodes[1], nodes[0])]
    assert [terms.ids[term] for term in made] == [1, 2, 3, 4, 5]
    return terms


X, Y = Var("x"), Var("y")
# Positions of a pattern, and what it gives for one quad: the row, or None.
SCANS: dict[str, tuple[tuple[TermPattern | NamedNode, ...], Callable[[IdRow], IdRow | None]]] = {
    "constants and variables": ((X, _node(1), Y), lambda q: (q[0], q[2]) if q[1] == 1 else None),
    "a variable twice": ((X, X, Y), lambda q: (q[0], q[2]) if q[0] == q[1] else None),
    "no variable": ((_node(1), _node(2), _node(3)), lambda q: () if q == (1, 2, 3) else None),
    "a graph": ((X, _node(1), Y, Var("g")), lambda q: (q[0], q[2], q[3]) if q[1] == 1 else None),
    "the graph of the subject": (
        (X, _node(1), Y, X),
        lambda q: q[::2] if q[1] == 1 and q[0] == q[3] else None,
    ),
    "a graph that is not asked for": ((X, Var("p"), Y), lambda q: (q[0], q[1], q[2])),
    "a triple term": (
        (X, _node(1), TripleTerm(_node(1), Y, Var("z"))),
        lambda q: (q[0], 2, {4: 3, 5: 1}[q[2]]) if q[1] == 1 and q[2] in (4, 5) else None,
    ),
    "a triple term that repeats": (
        (X, Y, TripleTerm(X, Var("q"), X)),
        lambda q: (1, q[1], 2) if q[0] == 1 and q[2] == 5 else None,
    ),
}


@pytest.mark.parametrize("name", SCANS)
def test_scan(name: str) -> None:
    positions, row_of = SCANS[name]
    width = 4 if name == "a graph that is not asked for" else len(positions)

    def whole(relation: Delta) -> Delta:
        out: Delta = {}
        for quad in relation:
            row = row_of(quad)
            if row is not None:
                add(out, row, 1)
        return out

    @settings(deadline=None, max_examples=examples(40))
    @given(histories(weighted(list(product(range(1, 6), repeat=width)), (1,), most_rows=12)))
    def law(states: list[tuple[Delta, ...]]) -> None:
        terms = _terms()
        obeys_its_law(lambda: Scan(positions, terms, PinnedIds(terms)), whole, states)

    law()


@settings(deadline=None)
@given(histories(sets([True, True, True])))
def test_select(states: list[tuple[Delta, ...]]) -> None:
    """A negated set of predicates: subject and object of what has another one."""

    def whole(triples: Delta) -> Delta:
        out: Delta = {}
        for s, p, o in triples:
            if p not in (1, 2):
                add(out, (s, o), 1)
        return out

    obeys_its_law(lambda: Select(AB, (0, 2), lambda row: row[1] not in (1, 2)), whole, states)


@settings(deadline=None)
@given(histories(sets([True, True, True])))
def test_star(states: list[tuple[Delta, ...]]) -> None:
    """Two slots with variables on one predicate, one slot with a constant object on another."""
    slots = [(1, None, "x"), (1, None, "y"), (2, 3, None)]

    def whole(triples: Delta) -> Delta:
        out: Delta = {}
        for s, p, o in triples:
            for s2, p2, o2 in triples:
                if p == p2 == 1 and s == s2 and (s, 2, 3) in triples:
                    add(out, (s, o, o2), 1)
        return out

    obeys_its_law(lambda: Star("s", slots), whole, states)


@settings(deadline=None)
@given(histories(sets([True, True, True, True])))
def test_star_inside_graphs(states: list[tuple[Delta, ...]]) -> None:
    slots = [(1, None, "x"), (2, None, "y")]

    def whole(quads: Delta) -> Delta:
        out: Delta = {}
        for s, p, o, g in quads:
            for s2, p2, o2, g2 in quads:
                if (p, p2) == (1, 2) and (s, g) == (s2, g2):
                    add(out, (s, g, o, o2), 1)
        return out

    obeys_its_law(lambda: Star("s", slots, graph="g"), whole, states)


@settings(deadline=None)
@given(
    histories(bags([True, False, True])),
    st.integers(0, 3),
    st.one_of(st.none(), st.integers(0, 4)),
    st.sampled_from([1, 64]),
)
def test_top_k(states: list[tuple[Delta, ...]], offset: int, limit: int | None, spare: int) -> None:
    def key(row: IdRow) -> tuple[Any, ...]:
        return (Descending(row[2]), row[0], row[1])

    def key_before(row: IdRow, floor: tuple[Any, ...] | None) -> tuple[Any, ...]:
        return () if floor is not None and floor < key(row)[:1] else key(row)

    def whole(relation: Delta) -> Delta:
        ordered = [row for row in sorted(relation, key=key) for _ in range(relation[row])]
        shown = ordered[offset:] if limit is None else ordered[offset : offset + limit]
        return dict(Counter((row[0], row[1]) for row in shown))

    obeys_its_law(lambda: TopK(AB, FIRST_TWO, key_before, offset, limit, spare=spare), whole, states)


@given(st.integers(0, 2), st.lists(st.tuples(st.integers(1, 40), st.booleans()), max_size=120))
def test_rows_far_behind_those_shown_come_back(limit: int, changes: list[tuple[int, bool]]) -> None:
    def key(row: IdRow, floor: tuple[Any, ...] | None) -> tuple[Any, ...]:
        return () if floor is not None and floor < row[2:] else (row[2], row[0], row[1])

    top = TopK(AB, FIRST_TWO, key, 0, limit, spare=1)
    first = {(each, each, each): 1 for each in range(1, 41)}
    shown, there = Counter(top.step(first)), dict(first)
    for number, comes in changes:
        row = (number, number, number)
        if comes != (row in there):
            for each, weight in top.step({row: 1 if comes else -1}).items():
                shown[each] += weight
            if comes:
                there[row] = 1
            else:
                del there[row]
        assert +shown == Counter(each[:2] for each in sorted(there)[:limit])


@pytest.mark.parametrize("limit", [None, 2])
def test_rows_that_look_alike_are_told_in_order_one_after_the_other(limit: int | None) -> None:
    top = TopK(AB, FIRST_TWO, lambda row, _: (row[2], row[0], row[1]), 0, limit)
    for change, told in [
        ({(1, 1, 5): 1, (1, 1, 6): 1, (2, 2, 7): 1}, [(1, 1), (2, 2)]),
        ({(1, 1, 6): -1}, [(1, 1), (2, 2)]),
        ({(1, 1, 5): -1, (3, 3, 9): 1}, [(1, 1), (3, 3)]),
        ({(2, 2, 7): -1, (3, 3, 9): -1}, [(2, 2), (3, 3)]),
    ]:
        out = top.step(change)
        assert list(top.in_order(out)) == [row for row in told if row in out]
    assert top.rows() == []


@pytest.mark.parametrize(("zero", "many"), [(True, True), (False, True), (True, False)])
@pytest.mark.parametrize("constants", [(), (1, 9)])
def test_closure(zero: bool, many: bool, constants: tuple[int, ...]) -> None:
    def whole(edges: Delta, triples: Delta) -> Delta:
        pairs = set(edges)
        if many:
            while more := {(a, d) for a, b in pairs for c, d in edges if b == c} - pairs:
                pairs |= more
        if zero:
            pairs |= {(node, node) for triple in triples for node in (triple[0], triple[2])}
            pairs |= {(node, node) for node in constants}
        return dict.fromkeys(pairs, 1)

    @settings(deadline=None, max_examples=examples(40))
    @given(histories(bags([True, True]), sets([True, True, True])))
    def law(states: list[tuple[Delta, ...]]) -> None:
        schema = Schema(("x", "y"), frozenset("xy"))
        obeys_its_law(lambda: Closure(schema, zero=zero, many=many, constants=constants), whole, states)

    law()


@pytest.mark.parametrize(("zero", "many"), [(True, True), (False, True), (True, False)])
def test_closure_in_each_graph(zero: bool, many: bool) -> None:
    schema = Schema(("from", "to", "g"), frozenset(("from", "to", "g")))
    pair = Schema(("from", "to"), frozenset(("from", "to")))

    def whole(edges: Delta, triples: Delta, graphs: Delta) -> Delta:
        out: Delta = {}
        for graph in {row[-1] for row in (*edges, *triples, *graphs)}:
            # In a graph that is not there the constants are no nodes.
            constants = (2,) if (graph,) in graphs else ()
            alone = Closure(pair, zero=zero, many=many, constants=constants)
            inside = [{row[:-1]: 1 for row in each if row[-1] == graph} for each in (edges, triples)]
            out |= {(*row, graph): weight for row, weight in alone.step(*inside).items()}
        return out

    def make() -> Closure:
        return Closure(schema, zero=zero, many=many, constants=(2,), by_context=True)

    @settings(deadline=None)
    @given(histories(sets([True] * 3), sets([True] * 4), sets([True])))
    def law(states: list[tuple[Delta, ...]]) -> None:
        obeys_its_law(make, whole, states)

    law()


@settings(deadline=None)
@given(histories(bags([True, False, True])))
def test_first(states: list[tuple[Delta, ...]]) -> None:
    def whole(relation: Delta) -> Delta:
        shown: dict[int, list[IdRow]] = {}
        for row in relation:
            shown.setdefault(row[0], []).append(row)
        return {min(rows_, key=lambda row: (row[1], row)): 1 for rows_ in shown.values()}

    obeys_its_law(lambda: TopK(ABC, tuple, lambda row, _: (row[1],), 0, 1, by=(0,)), whole, states)


@settings(deadline=None)
@given(histories(bags([True, True])), st.integers(0, 1), st.one_of(st.none(), st.integers(0, 2)))
def test_top_k_of_each_group(states: list[tuple[Delta, ...]], offset: int, limit: int | None) -> None:
    def top_k(*by: int) -> TopK:
        return TopK(CERTAIN_AB, tuple, lambda row, _: row, offset, limit, by)

    def whole(relation: Delta) -> Delta:
        out: Delta = {}
        for group in {row[0] for row in relation}:
            out |= top_k().step({row: weight for row, weight in relation.items() if row[0] == group})
        return out

    obeys_its_law(lambda: top_k(0), whole, states)


@settings(deadline=None)
@given(histories(sets([True] * 3), sets([True] * 3), sets([True] * 3)))
def test_merge(states: list[tuple[Delta, ...]]) -> None:
    def whole(first: Delta, second: Delta, background: Delta) -> Delta:
        return dict.fromkeys([*first, *second, *(row[::-1] for row in background)], 1)

    obeys_its_law(lambda: Deduplicate(ABC, None, None, (2, 1, 0)), whole, states)


TERMS: list[Literal | NamedNode | BlankNode] = [
    *(Literal(text, datatype=NamedNode(XSD + "integer")) for text in ("1", "-3", "9223372036854775807")),
    *(Literal(text, datatype=NamedNode(XSD + "decimal")) for text in ("1", "0.1", "-2.5")),
    *(
        Literal(text, datatype=NamedNode(XSD + "double"))
        for text in ("0.1", "1", "10000000000000000", "INF", "NaN")
    ),
    *(Literal(text, datatype=NamedNode(XSD + "float")) for text in ("0.1", "2.5")),
    Literal("a"),
    Literal("b"),
    Literal("b", language="en"),
    NamedNode("http://e/a"),
    BlankNode("x"),
]
POOLS = [TERMS, TERMS[:3], TERMS[:6], TERMS[6:9], TERMS[:12], TERMS[13:16]]
FUNCTIONS = [
    AggregateNode(
        name,
        Var("v"),
        distinct=distinct,
        separator="|" if name == "GROUP_CONCAT" else None,
        parameter=ConstantNode(TERMS[4]) if name == "PERCENTILE" else None,
    )
    for name in ("COUNT", *sorted(STANDARD))
    for distinct in (False, True)
]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda each: f"{each.name}{'-distinct' * each.distinct}")
@pytest.mark.parametrize("grouped", [False, True])
def test_aggregate(function: AggregateNode, grouped: bool) -> None:
    terms = TermDictionary()
    values = ValueTable(terms)
    keys = OrderKeys(values)
    ids = [0, *map(terms.encode, TERMS)]
    cells = [[*map(terms.encode, pool), *unbound] for pool in POOLS for unbound in ([], [0])]

    def value_of_group(cells: list[int]) -> int:
        bound = [terms.decode(cell) for cell in cells if cell]
        if function.distinct:
            bound = list(dict.fromkeys(bound))
        if function.name == "COUNT":
            return values.id_of(len(bound))
        if 0 in cells and function.name != "SAMPLE":
            return 0
        return terms.encode(
            set_function(
                function.name,
                bound,
                separator=function.separator,  # type: ignore[arg-type]
                parameter=0.1 if function.parameter else None,
            )
        )

    def whole(relation: Delta) -> Delta:
        groups: dict[IdRow, list[int]] = {} if grouped else {(): []}
        for row, weight in relation.items():
            groups.setdefault((row[0],) if grouped else (), []).extend([row[1]] * weight)
        return {(*key, value_of_group(cells)): 1 for key, cells in groups.items()}

    def make() -> GroupAggregate:
        schema = Schema(("k", "r") if grouped else ("r",))
        new = accumulator_factory(function, Tools(values, keys, terms.terms))
        return GroupAggregate(schema, (0,) if grouped else (), [Aggregation(new, column=1)], values)

    @settings(deadline=None, max_examples=examples(40))
    @given(st.one_of([histories(weighted(list(product((1, 2), each)), (1, 2))) for each in cells]))
    def law(states: list[tuple[Delta, ...]]) -> None:
        obeys_its_law(make, whole, states)

    law()
    assert len(ids) == len(TERMS) + 1
    assert total_key(None)


@settings(deadline=None)
@given(histories(bags([True, False])))
def test_counting_rows_and_distinct_rows(states: list[tuple[Delta, ...]]) -> None:
    terms = TermDictionary()
    values = ValueTable(terms)
    keys = OrderKeys(values)

    def whole(relation: Delta) -> Delta:
        return {(values.id_of(sum(relation.values())), values.id_of(len(relation))): 1}

    def make() -> GroupAggregate:
        news = [
            accumulator_factory(AggregateNode("COUNT", None, distinct), Tools(values, keys, terms.terms))
            for distinct in (False, True)
        ]
        return GroupAggregate(
            Schema(("n", "d")), (), [Aggregation(new, columns=(0, 1)) for new in news], values
        )

    obeys_its_law(make, whole, states)


@settings(deadline=None)
@given(st.lists(rows([True, True]), max_size=5))
def test_held_rows_and_sizes_follow_the_state(given_rows: list[IdRow]) -> None:
    change = dict.fromkeys(given_rows, 1)
    for operator in (
        Deduplicate(CERTAIN_AB),
        DeltaJoin([CERTAIN_AB]),
        TopK(CERTAIN_AB, tuple, lambda row, _: row, 0, 1),
    ):
        operator.step(change)
        assert set(operator.referenced_rows()) == set(change)
        assert operator.size() == len(change)


def test_every_operator_has_its_law_tested_here() -> None:
    folder = Path(__file__).parents[3] / "continuous" / "operators"
    operators = {
        node.name
        for path in folder.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ClassDef)
        and node.name != "Operator"
        and any(isinstance(each, ast.FunctionDef) and each.name == "step" for each in node.body)
    }
    assert len(operators) > 10
    text = Path(__file__).read_text("utf-8")
    assert {name for name in operators if f"{name}(" not in text} == set()
