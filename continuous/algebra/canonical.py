"""One name for static patterns that differ only in the names of variables and the order of operands.

Variables are told apart by where they occur, in rounds as in colour refinement: a variable's colour says at
which places of which triple patterns and expressions it stands, the next round also with which colours. Then
the operands of joins, unions and basic graph patterns are sorted and the variables numbered. Two patterns
that get the same text are equal up to names; of those that are equal a few, very symmetric ones get
different texts, and are then simply two tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, TypeVar, cast

from .build import all_nodes, children, conjuncts, join, operands, union, with_operands
from .nodes import Algebra, Bgp, Join, Table, Union, Var

T = TypeVar("T")
_ROUNDS = 4
_SELF = "@"
_MEMBERS: dict[type[Any], tuple[str, ...]] = {}


@dataclass(frozen=True, slots=True)
class Canonical:
    """A pattern under canonical names.

    ``text`` is equal for patterns that are equal up to names; ``pattern`` keeps the operands' own order, on
    which the store's plan may depend, ``ordered`` has them as the text does; ``columns`` are in the order of
    their canonical names, and ``names`` leads from the pattern's own names to those.
    """

    text: str
    pattern: Algebra
    columns: tuple[Var, ...]
    names: Mapping[str, str]
    ordered: Algebra


def canonical(pattern: Algebra, columns: Sequence[Var]) -> Canonical:
    """The canonical form of a pattern of which these columns are read.

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


def rename(value: T, names: Mapping[str, str]) -> T:
    """The pattern or expression with its variables renamed; names that are not given stay."""
    return cast(T, _rename(value, names))


def _rename(value: Any, names: Mapping[str, str]) -> Any:
    if isinstance(value, Var):
        return Var(names.get(value.name, value.name))
    if isinstance(value, Table):
        raise TypeError("a table has no pattern to rename")
    if isinstance(value, tuple):
        return tuple([_rename(each, names) for each in value])
    kind = type(value)
    members = _members(kind)
    return kind(*[_rename(getattr(value, each), names) for each in members]) if members else value


def _members(kind: type[Any]) -> tuple[str, ...]:
    """The members of a kind of node, which are the arguments that make one; none of what is no node."""
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
    """The triple patterns, and every other node without its operands."""
    for node in all_nodes(pattern):
        if isinstance(node, Bgp):
            yield from node.patterns
        else:
            below = {id(each) for each in children(node)}
            parts = [getattr(node, each) for each in _members(type(node))]
            yield (type(node).__name__, *(part for part in parts if id(part) not in below))


def _sorted(node: Algebra, colours: Mapping[str, str]) -> Algebra:
    """The pattern with operands whose order means nothing in the order of their texts."""

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
    """Every variable in the order of its places, as often as it stands there."""
    if isinstance(value, Var):
        yield value
    elif isinstance(value, tuple):
        for each in value:
            yield from _variables(each)
    else:
        for each in _members(type(value)):
            yield from _variables(getattr(value, each))
