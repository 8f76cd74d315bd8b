"""Canonical forms of static patterns, lifting of constants to columns, restriction to given values.

The variables of a pattern are distinguished by colour refinement: the colour of a variable describes the
positions of triple patterns and expressions where the variable occurs, and each further round adds the
colours of the variables next to it. After the colour refinement, the operands of joins, unions and basic
graph patterns are sorted and the variables numbered. Two patterns with equal canonical texts are equal up to
variable names. A few very symmetric patterns that are equal up to names get different texts; the engine then
keeps two tables for them.

A constant of a static pattern can become one more column of the pattern's rows:

    Bgp(?x foaf:name "A" . ?x :knows ?y)   ->   Bgp(?x foaf:name ?k0 . ?x :knows ?y),  "A"

The rows of the pattern with the constant are the rows of the lifted pattern with ?k0 = "A", with equal
multiplicities. A constant is lifted only if every operator above the constant computes its rows from one
input row (or one group) at a time and keeps the new column, the same condition as for `restrict`. Constants
that can be lifted are subjects and objects of triple patterns and of paths of a fixed length, and IRIs or
plain strings that a FILTER compares by ``=`` with a bound variable. Constants below UNION, on the right side
of OPTIONAL and MINUS, in EXISTS and below LIMIT are not lifted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, TypeAlias, TypeVar, cast

from pyoxigraph import Literal, NamedNode

from . import nodes as n
from .build import all_nodes, children, conditions_of, conjuncts, join, operands, union, with_operands
from .nodes import (
    Algebra,
    Bgp,
    Call,
    Constant,
    Expr,
    Join,
    TableNode,
    Term,
    TermPattern,
    TriplePattern,
    Union,
    Values,
    Var,
)
from .static import StaticPattern
from .triggers import triggers
from .variables import Names, certain, in_scope

T = TypeVar("T")
_ROUNDS = 4
_SELF = "@"
_MEMBERS: dict[type[Any], tuple[str, ...]] = {}


@dataclass(frozen=True, slots=True)
class Canonical:
    """A pattern under canonical variable names, with the text by which equal patterns are found.

    The canonical ``text`` is equal for patterns that are equal up to variable names. ``pattern`` keeps the
    original order of operands, on which the store's plan may depend; ``ordered`` has the operands in the
    order of ``text``. The ``columns`` of a canonical pattern are in the order of their canonical names.
    ``names`` maps the original variable names of a pattern to the canonical names.
    """

    text: str
    pattern: Algebra
    columns: tuple[Var, ...]
    names: Mapping[str, str]
    ordered: Algebra


def canonical(pattern: Algebra, columns: Sequence[Var]) -> Canonical:
    """Return the canonical form of a pattern of which the caller reads the given columns.

    >>> from pyoxigraph import NamedNode
    >>> from .nodes import TriplePattern
    >>> def knows(a: str, b: str) -> Algebra:
    ...     return Bgp((TriplePattern(Var(a), NamedNode("http://knows"), Var(b)),))
    >>> one = canonical(knows("x", "y"), [Var("y")])
    >>> two = canonical(knows("b", "a"), [Var("a")])
    >>> one.text == two.text, one.columns == two.columns, one.names, two.names["a"]
    (True, True, {'x': 'v0', 'y': 'v1'}, 'v1')
    """
    shown = {each.name for each in columns}
    colours = _colours(pattern, shown)
    ordered = _sorted(pattern, colours)
    names: dict[str, str] = {}
    for var in _variables(ordered):
        names.setdefault(var.name, f"v{len(names)}")
    for var in columns:
        names.setdefault(var.name, f"v{len(names)}")
    kept = sorted((names[name] for name in shown), key=lambda name: int(name[1:]))
    ordered = rename(ordered, names)
    return Canonical(f"{ordered!r} {kept!r}", rename(pattern, names), tuple(map(Var, kept)), names, ordered)


@dataclass(frozen=True, slots=True)
class Arranged:
    """A static part with its columns in canonical order, so that equal parts can share one table.

    ``part`` is the static part with its columns in the order that all equal parts have. ``form`` is the
    canonical form of the static part, or None if commits cannot update the part's table. ``permutation``
    gives the new position of each original column of the static part.
    """

    part: StaticPattern
    form: Canonical | None
    permutation: tuple[int, ...]


def without_canonical_form(part: StaticPattern) -> Arranged:
    """Return a static part with unchanged columns, if its table is not updated commit by commit."""
    return Arranged(part, None, tuple(range(len(part.vars))))


def arranged(part: StaticPattern) -> Arranged:
    """Return a static part in canonical column order if commits can update its table, else unchanged."""
    if triggers(part.pattern) is None:
        return without_canonical_form(part)
    form = canonical(part.pattern, part.vars)
    columns = [each.name for each in form.columns]
    own = {form.names[each.name]: each for each in part.vars}
    permutation = tuple(columns.index(form.names[each.name]) for each in part.vars)
    return Arranged(replace(part, vars=tuple(own[name] for name in columns)), form, permutation)


def rename(value: T, names: Mapping[str, str]) -> T:
    """Return a pattern or expression with variables renamed by ``names``; other variables stay."""
    return cast(T, _rename(value, names))


def with_numbered_hidden_variables(value: T) -> T:
    """Return a pattern with its hidden variables, such as those of blank nodes, renamed in text order."""
    names: dict[str, str] = {}
    for each in _variables(value):
        if each.hidden:
            names.setdefault(each.name, f"_:{len(names)}")
    return rename(value, names)


def _rename(value: Any, names: Mapping[str, str]) -> Any:
    if isinstance(value, Var):
        return Var(names.get(value.name, value.name))
    if isinstance(value, TableNode):
        raise TypeError("a table has no pattern to rename")
    if isinstance(value, tuple):
        return tuple([_rename(each, names) for each in value])
    kind = type(value)
    members = _members(kind)
    return kind(*[_rename(getattr(value, each), names) for each in members]) if members else value


def _members(kind: type[Any]) -> tuple[str, ...]:
    """Return the field names of a node class, in the order of its constructor; empty for other classes."""
    known = _MEMBERS.get(kind)
    if known is None:
        known = tuple(each.name for each in fields(kind)) if is_dataclass(kind) else ()
        _MEMBERS[kind] = known
    return known


def _colours(pattern: Algebra, shown: set[str]) -> dict[str, str]:
    places = list(_places(pattern))
    names = {var.name for place in places for var in _variables(place)} | shown
    colours = {name: "shown" if name in shown else "" for name in names}
    count = 0
    for _ in range(_ROUNDS):
        seen: dict[str, list[str]] = {name: [colours[name]] for name in names}
        for place in places:
            for name in {var.name for var in _variables(place)}:
                seen[name].append(repr(_rename(place, {**colours, name: _SELF})))
        texts = {name: repr(sorted(each)) for name, each in seen.items()}
        rank = {text: f"c{number}" for number, text in enumerate(sorted(set(texts.values())))}
        colours = {name: rank[texts[name]] for name in names}
        if len(rank) == count:
            break
        count = len(rank)
    return colours


def _places(pattern: Algebra) -> Iterator[Any]:
    """Yield where variables occur: the triple patterns, and each other node's fields without its operands."""
    for node in all_nodes(pattern):
        if isinstance(node, Bgp):
            yield from node.patterns
        else:
            below = {id(each) for each in children(node)}
            parts = [getattr(node, each) for each in _members(type(node))]
            yield (type(node).__name__, *(part for part in parts if id(part) not in below))


def _sorted(node: Algebra, colours: Mapping[str, str]) -> Algebra:
    """Return the pattern with the operands of commutative operators sorted by their texts."""

    def text(value: Any) -> str:
        return repr(_rename(value, colours))

    if isinstance(node, Bgp):
        return Bgp(tuple(sorted(node.patterns, key=text)))
    if isinstance(node, Join):
        return join(*sorted((_sorted(each, colours) for each in conjuncts(node)), key=text))
    if isinstance(node, Union):
        return union(sorted((_sorted(each, colours) for each in _branches(node)), key=text))
    return with_operands(node, [_sorted(each, colours) for each in operands(node)])


def _branches(node: Algebra) -> list[Algebra]:
    if isinstance(node, Union):
        return _branches(node.left) + _branches(node.right)
    return [node]


def _variables(value: Any) -> Iterator[Var]:
    """Yield every occurrence of a variable in a pattern, in the order of the text."""
    if isinstance(value, Var):
        yield value
    elif isinstance(value, tuple):
        for each in value:
            yield from _variables(each)
    else:
        for each in _members(type(value)):
            yield from _variables(getattr(value, each))


def restrict(node: Algebra, values: Values) -> Algebra:
    """Return the rows of the pattern that agree with one of the rows of ``values``.

    Every row of the pattern must bind all variables of ``values``, whose rows must differ from each other.

        restrict(Bgp(?x :p ?y . ?y :q ?z), (?x), [[:a]])   =   Join(Values(?x, :a), Bgp(...))

    The values are placed as deep as possible, where they turn scans into look-ups: below OPTIONAL (on its
    left side), MINUS, GROUP BY, FILTER and sub-queries, and in both branches of UNION. The values may be
    placed below an operator that computes its rows from one input row (or one group) at a time and keeps the
    values of the variables.
    """
    names = frozenset(each.name for each in values.vars)
    return _restrict(node, values, names)


def _restrict(node: Algebra, values: Values, names: Names) -> Algebra:
    match node:
        case n.Union(left, right) if names <= certain(left) & certain(right):
            return n.Union(_restrict(left, values, names), _restrict(right, values, names))
        case n.LeftJoin(left, _, _) | n.Minus(left, _) if names <= certain(left):
            return replace(node, left=_restrict(left, values, names))
        case n.Filter(_, inner) | n.Distinct(inner) if names <= certain(inner):
            return replace(node, input=_restrict(inner, values, names))
        case n.Extend(inner, var, _) if var.name not in names and names <= certain(inner):
            return replace(node, input=_restrict(inner, values, names))
        case n.OrderBy(inner, _) if names <= certain(inner):
            return replace(node, input=_restrict(inner, values, names))
        case n.Project(inner, variables) if names <= {each.name for each in variables} & certain(inner):
            return replace(node, input=_restrict(inner, values, names))
        case n.Group(inner, keys, _) if names <= {each.name for each in keys} & certain(inner):
            return replace(node, input=_restrict(inner, values, names))
        case n.Graph(n.Var(name), inner) if name not in names and names <= certain(inner):
            return replace(node, input=_restrict(inner, values, names))
        case n.Graph(NamedNode(), inner) if names <= certain(inner):
            return replace(node, input=_restrict(inner, values, names))
        case n.Join():
            return _restrict_join(node, values, names)
        case _:
            return join(values, node)


def _restrict_join(node: Algebra, values: Values, names: Names) -> Algebra:
    """Restrict one operand that binds all variables, but no triple pattern or path; else join the values."""
    operands = conjuncts(node)
    for place, operand in enumerate(operands):
        if names <= certain(operand) and not isinstance(operand, n.Bgp | n.Path):
            operands[place] = _restrict(operand, values, names)
            # The restricted operand of the join comes first, so that its rows restrict the other operands.
            operands.insert(0, operands.pop(place))
            return join(*operands)
    return join(values, *operands)


_STRING = "http://www.w3.org/2001/XMLSchema#string"
Place: TypeAlias = tuple[str, Term]
"""A constant with its place: "" for a constant of a pattern, or the variable that an equality compares it
with."""
PlaceNames: TypeAlias = Mapping[Place, str]


@dataclass(frozen=True, slots=True)
class CanonicalPattern:
    """A pattern under canonical names whose constants can be lifted to columns.

    Attributes:
        text: equal for patterns that differ only in variable names and liftable constants.
        constants: the liftable constants in the order of the text.
    """

    text: str
    constants: tuple[Term, ...]
    _form: Canonical
    _names: PlaceNames

    def general(self, places: Collection[int]) -> tuple[Algebra, tuple[Var, ...]]:
        """Return the pattern with the numbered constants lifted, and the variables that replace them."""
        names = {place: name for number, (place, name) in enumerate(self._names.items()) if number in places}
        return _lift(self._form.pattern, names), tuple(map(Var, names.values()))


def lifted(form: Canonical) -> CanonicalPattern | None:
    """Return the pattern with all liftable constants lifted; None if the pattern has no such constant.

    >>> from .canonical import canonical
    >>> def named(name: str) -> Canonical:
    ...     pattern = TriplePattern(Var("x"), NamedNode("http://name"), Literal(name))
    ...     return canonical(n.Bgp((pattern,)), [Var("x")])
    >>> one, two = lifted(named("a")), lifted(named("b"))
    >>> one.text == two.text, one.constants, one.general([0]) == two.general([0])
    (True, (<Literal value=a datatype=<NamedNode value=http://www.w3.org/2001/XMLSchema#string>>,), True)
    """
    found: dict[Place, str] = {}
    _collect(form.ordered, found)
    if not found:
        return None
    names = {place: f"k{number}" for number, place in enumerate(found)}
    shown = [each.name for each in form.columns]
    return CanonicalPattern(
        f"{_lift(form.ordered, names)!r} {shown!r}", tuple(term for _, term in names), form, names
    )


def _lift(node: Algebra, names: PlaceNames) -> Algebra:
    """Return a pattern with the constants of ``names`` replaced by variables, which are new columns."""
    match node:
        case n.Bgp(patterns):
            return n.Bgp(tuple([_lift_triple(each, names) for each in patterns]))
        case n.Path(subject, path, object_) if _has_fixed_length(path):
            return n.Path(_lift_term(subject, names), path, _lift_term(object_, names))
        case n.Join(left, right):
            return join(_lift(left, names), _lift(right, names))
        case n.LeftJoin(left, _, _) | n.Minus(left, _):
            return replace(node, left=_lift(left, names))
        case n.Graph(_, inner) | n.Extend(inner, _, _) | n.Distinct(inner):
            return replace(node, input=_lift(inner, names))
        case n.Filter(condition, inner):
            return _lift_filter(condition, inner, names)
        case n.Project(inner, variables):
            return n.Project(_lift(inner, names), (*variables, *_columns(inner, names)))
        case n.Group(inner, keys, _) if keys:
            return replace(node, input=_lift(inner, names), keys=(*keys, *_columns(inner, names)))
        case _:
            return node


def _lift_filter(condition: Expr, inner: Algebra, names: PlaceNames) -> Algebra:
    left: list[Expr] = []
    node = _lift(inner, names)
    for each in conditions_of(condition):
        place = _equality(each, inner)
        name = None if place is None else names.get(place)
        if place is None or name is None or name in in_scope(node):
            left.append(each)
        else:
            node = n.Extend(node, Var(name), Var(place[0]))
    for other in left:
        node = n.Filter(other, node)
    return node


def _columns(inner: Algebra, names: PlaceNames) -> tuple[Var, ...]:
    """Return the columns that replace the lifted constants of a pattern."""
    found: dict[Place, str] = {}
    _collect(inner, found)
    return tuple(Var(name) for place, name in names.items() if place in found)


def _collect(node: Algebra, found: dict[Place, str]) -> None:
    """Collect the constants of a pattern that can be lifted, in the order of the text."""
    match node:
        case n.Bgp(patterns):
            for each in patterns:
                _collect_terms((each.subject, each.object), found)
        case n.Path(subject, path, object_) if _has_fixed_length(path):
            _collect_terms((subject, object_), found)
        case n.Join(left, right):
            _collect(left, found)
            _collect(right, found)
        case n.LeftJoin(left, _, _) | n.Minus(left, _):
            _collect(left, found)
        case n.Graph(_, inner) | n.Extend(inner, _, _) | n.Distinct(inner) | n.Project(inner, _):
            _collect(inner, found)
        case n.Group(inner, keys, _) if keys:
            _collect(inner, found)
        case n.Filter(condition, inner):
            _collect(inner, found)
            for asked in conditions_of(condition):
                place = _equality(asked, inner)
                if place is not None:
                    found.setdefault(place, "")
        case _:
            return


def _collect_terms(terms: tuple[TermPattern, ...], found: dict[Place, str]) -> None:
    for term in terms:
        if isinstance(term, NamedNode | Literal):
            found.setdefault(("", term), "")


def _lift_triple(pattern: TriplePattern, names: PlaceNames) -> TriplePattern:
    return replace(
        pattern, subject=_lift_term(pattern.subject, names), object=_lift_term(pattern.object, names)
    )


def _lift_term(term: TermPattern, names: PlaceNames) -> TermPattern:
    name = names.get(("", term)) if isinstance(term, NamedNode | Literal) else None
    return term if name is None else Var(name)


def _equality(expr: Expr, inner: Algebra) -> Place | None:
    """Return variable and constant of an equality that only identical terms satisfy, else None."""
    match expr:
        case Call("=", (Var(name), Constant(term))) | Call("=", (Constant(term), Var(name))):
            exact = isinstance(term, NamedNode) or (
                isinstance(term, Literal) and term.datatype.value == _STRING
            )
            return (name, term) if exact and name in certain(inner) else None
        case _:
            return None


def _has_fixed_length(path: n.PathExpr) -> bool:
    match path:
        case n.Link() | n.NegatedSet():
            return True
        case n.Inverse(inner):
            return _has_fixed_length(inner)
        case n.Sequence(left, right) | n.Alternative(left, right):
            return _has_fixed_length(left) and _has_fixed_length(right)
        case _:
            return False
