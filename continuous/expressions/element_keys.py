"""Keys of an element for windows with BY: solutions of the window's pattern over the element alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import TypeAlias

from pyoxigraph import NamedNode, QuerySolutions, Store

from quadrill.store.documents.statements import quads_of
from quadrill.store.documents.subject_columns import Statements
from quadrill.store.documents.wall_clock import require_epoch
from quadrill.store.terms import term_text

from ..algebra.nodes import Bgp, TriplePattern, Var
from ..algebra.order import Key as OrderKey
from ..algebra.order import total_key
from ..algebra.query import WindowSpec
from ..algebra.reify import REIFIES, canonical_content, has_reifiers
from ..algebra.text import SparqlText
from ..errors import BudgetError
from ..inputs import Element

Key: TypeAlias = tuple[str, ...]
"""The N-Triples texts of a key's terms; an unbound term is an empty text."""
KeysOf = Callable[[Element], Sequence[Key]]
_FEW = 50
_REIFIES = str(REIFIES)
Slots: TypeAlias = tuple[str | Var, ...]


def keys_of(spec: WindowSpec, most: int = 1_000_000) -> KeysOf:
    """Return a function from an element to its keys.

    In a window without BY, all elements have the key (). Raises UnsupportedError if the window's pattern
    cannot be written as a separate query. The returned function raises BudgetError if the pattern has more
    than ``most`` solutions over one element.
    """
    if spec.pattern is None:
        return lambda element: ((),)
    text = SparqlText(spec.pattern).select(each.name for each in spec.keys)
    solved = partial(_solved, text, [each.name for each in spec.keys], most)
    if not isinstance(spec.pattern, Bgp):
        return solved
    slots = [_slots(each) for each in spec.pattern.patterns]
    return (
        partial(_matched, [each for each in slots if each is not None], spec.keys, solved)
        if all(slots)
        else solved
    )


def order_of(key: Key) -> tuple[OrderKey, ...]:
    """Return a sort key by which keys of elements have the order of their terms under ORDER BY."""
    statements = [("<urn:quadrill:key>", "<urn:quadrill:key>", text, "") for text in key if text]
    terms = iter([quad.object for quad in quads_of(statements)])
    return tuple(total_key(next(terms) if text else None) for text in key)


def _solved(text: str, names: Sequence[str], most: int, element: Element) -> list[Key]:
    store, quads = Store(), element.quads
    content = dict.fromkeys(quads, element.event_time)
    store.extend(canonical_content(content) if has_reifiers(content) else quads)
    require_epoch()
    found = store.query(text, use_default_graph_as_union=True)
    assert isinstance(found, QuerySolutions)
    rows = [[row[name] for name in names] for row in islice(found, most + 1)]
    if len(rows) > most:
        raise BudgetError(
            f"an element has more than {most} solutions of the pattern of its window", limit=most
        )
    return list(dict.fromkeys(tuple("" if each is None else term_text(each) for each in row) for row in rows))


def _slots(pattern: TriplePattern) -> Slots | None:
    """Return a triple pattern with its IRIs as texts; None if a term is no IRI and no variable."""
    terms = (pattern.subject, pattern.predicate, pattern.object)
    if any(not isinstance(each, (NamedNode, Var)) for each in terms):
        return None
    return tuple(each if isinstance(each, Var) else str(each) for each in terms)


def _matched(
    patterns: Sequence[Slots], names: Sequence[Var], solved: KeysOf, element: Element
) -> Sequence[Key]:
    """Match a few triple patterns over a small element's triples without creating a store.

    Larger elements and those with reifiers are matched in a store (``solved``).
    """
    statements = element.statements
    if len(statements) > _FEW or any(each[1] == _REIFIES for each in statements):
        return solved(element)
    return list(dict.fromkeys(tuple(row[name] for name in names) for row in _rows(patterns, statements, {})))


def _rows(
    patterns: Sequence[Slots], statements: Statements, row: Mapping[Var, str]
) -> Iterator[Mapping[Var, str]]:
    if not patterns:
        yield row
        return
    for statement in statements:
        bound = dict(row)
        for slot, text in zip(patterns[0], statement, strict=False):
            if (bound.setdefault(slot, text) if isinstance(slot, Var) else slot) != text:
                break
        else:
            yield from _rows(patterns[1:], statements, bound)
