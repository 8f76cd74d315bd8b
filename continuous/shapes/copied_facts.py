"""Copied facts: the triples of one state of the data, copied into memory by predicate.

A validation of all focus nodes reads most triples once. So the copy holds terms, and a term gets an id only
when a constraint looks at the term alone. `ValueSets` computes conditions on many nodes with sets of terms.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, KeysView, Sequence

from pyoxigraph import NamedNode, Quad

from quadrill.store.terms import Term

from ..algebra.nodes import Inverse, Link, PathExpr
from ..rules.facts import Fact, Pattern, Row
from ..rules.terms import RuleTerms
from .vocabulary import SUB_CLASS_OF, TYPE


class Column:
    """The subjects and objects of all triples with one predicate, without duplicates."""

    def __init__(self) -> None:
        self._first: dict[Term, Term] = {}  # subject -> its first object
        self._others: dict[Term, dict[Term, None]] = {}  # subject -> its other objects, if it has any
        self._subjects: dict[Term, list[Term]] | None = None  # object -> subjects; None if not needed yet
        self._distinct: set[Term] | None = None

    def extend(self, pairs: Iterable[Sequence[Term]]) -> None:
        """Add pairs of a subject and an object."""
        add_first, others = self._first.setdefault, self._others
        for pair in pairs:
            subject, value = pair[0], pair[1]
            known = add_first(subject, value)
            if known is not value and known != value:
                others.setdefault(subject, {})[value] = None
        self._subjects = self._distinct = None

    def __len__(self) -> int:
        return len(self._first) + sum(map(len, self._others.values()))

    @property
    def subjects(self) -> KeysView[Term]:
        """The subjects."""
        return self._first.keys()

    @property
    def subjects_of_many(self) -> KeysView[Term]:
        """The subjects that have at least two objects."""
        return self._others.keys()

    def objects(self, subject: Term) -> list[Term]:
        """Return the objects of a subject."""
        if subject not in self._first:
            return []
        return [self._first[subject], *self._others.get(subject, ())]

    def distinct_objects(self) -> set[Term]:
        """Return all objects, each once; the caller does not change the set."""
        if self._distinct is None:
            self._distinct = set(self._first.values()).union(*self._others.values())
        return self._distinct

    def having(self, objects: Collection[Term]) -> set[Term]:
        """Return the subjects that have one of some objects."""
        if self._subjects is None and len(objects) > 1:
            found = {subject for subject, value in self._first.items() if value in objects}
            return found | {
                subject
                for subject, values in self._others.items()
                if subject not in found and not values.keys().isdisjoint(objects)
            }
        return {subject for value in objects for subject in self.subjects_with(value)}

    def subjects_with(self, value: Term) -> Sequence[Term]:
        """Return the subjects of an object."""
        if self._subjects is None:
            index: dict[Term, list[Term]] = {}
            for subject, each in self.pairs():
                index.setdefault(each, []).append(subject)
            self._subjects = index
        return self._subjects.get(value, ())

    def pairs(self) -> Iterable[tuple[Term, Term]]:
        """Yield all pairs of a subject and an object."""
        yield from self._first.items()
        for subject, values in self._others.items():
            for value in values:
                yield subject, value


class CopiedFacts:
    """Triples in memory, as terms; see `facts.Facts` for the methods with ids.

    Attributes:
        terms: the dictionary of the ids.
        columns: the triples, by predicate.
    """

    def __init__(self, terms: RuleTerms) -> None:
        self.terms = terms
        self.columns: dict[NamedNode, Column] = {}
        self._inverse: dict[NamedNode, Column] = {}
        # The predicates of the triples of a subject and of an object; None if not needed yet.
        self._predicates: tuple[dict[Term, list[NamedNode]], dict[Term, list[NamedNode]]] | None = None

    def extend(self, predicate: NamedNode, pairs: Iterable[Sequence[Term]]) -> None:
        """Add triples with one predicate; ``pairs`` are subjects and objects."""
        self.column(predicate).extend(pairs)

    def add_quads(self, quads: Iterable[Quad], predicates: Collection[NamedNode] | None = None) -> None:
        """Add the triples of quads; if ``predicates`` is not None, only triples with one of them."""
        found: dict[NamedNode, list[tuple[Term, Term]]] = {}
        for quad in quads:
            predicate = quad.predicate
            if predicates is None or predicate in predicates:
                found.setdefault(predicate, []).append((quad.subject, quad.object))
        for predicate, pairs in found.items():
            self.extend(predicate, pairs)

    def column(self, predicate: NamedNode) -> Column:
        """Return the triples with a predicate."""
        found = self.columns.get(predicate)
        if found is None:
            found = self.columns[predicate] = Column()
        return found

    def along(self, path: PathExpr) -> Column | None:
        """Return the starts and ends of a path that is a predicate or its inverse; None for other paths."""
        match path:
            case Link(iri):
                return self.column(iri)
            case Inverse(Link(iri)):
                found = self._inverse.get(iri)
                if found is None:
                    found = self._inverse[iri] = Column()
                    found.extend((value, subject) for subject, value in self.column(iri).pairs())
                return found
            case _:
                return None

    def instances(self, class_iri: Term) -> set[Term]:
        """Return the SHACL instances of a class, by rdf:type and rdfs:subClassOf."""
        below = {class_iri}
        waiting = [class_iri]
        above = self.columns.get(SUB_CLASS_OF)
        while waiting and above is not None:
            new = [each for each in above.subjects_with(waiting.pop()) if each not in below]
            below.update(new)
            waiting += new
        types = self.columns.get(TYPE)
        return set() if types is None else types.having(below)

    # --- the interface of facts, with ids -----------------------------------------------------

    def match(self, s: Pattern, p: Pattern, o: Pattern) -> Collection[Fact]:
        """Return the facts that match; see `Facts.match`."""
        terms, ids = self.terms.dictionary.terms, self.terms.dictionary.ids
        subject, value = None if s is None else terms[s], None if o is None else terms[o]
        if p is not None:
            predicate = terms[p]
            column = self.columns.get(predicate) if isinstance(predicate, NamedNode) else None
            if column is None:
                return ()
            if subject is not None:
                objects = column.objects(subject)
                if value is not None:
                    return ((s, p, o),) if value in objects else ()  # type: ignore[return-value]
                return [(s, p, ids[each]) for each in objects]  # type: ignore[misc]
            if value is not None:
                return [(ids[each], p, o) for each in column.subjects_with(value)]  # type: ignore[misc]
            return [(ids[one], p, ids[other]) for one, other in column.pairs()]
        return [
            fact
            for each in self._predicates_of(subject, value)
            for fact in self.match(s, self.terms.id_of(each), o)
        ]

    def _predicates_of(self, subject: Term | None, value: Term | None) -> Iterable[NamedNode]:
        """Return the predicates of the triples with a subject, or an object; None is a wildcard."""
        if subject is None and value is None:
            return list(self.columns)
        if self._predicates is None:
            index: tuple[dict[Term, list[NamedNode]], dict[Term, list[NamedNode]]] = {}, {}
            for predicate, column in self.columns.items():
                for place, nodes in enumerate((column.subjects, column.distinct_objects())):
                    for node in nodes:
                        index[place].setdefault(node, []).append(predicate)
            self._predicates = index
        if subject is not None:
            return self._predicates[0].get(subject, ())
        return () if value is None else self._predicates[1].get(value, ())

    def match_in(self, graph: Pattern, s: Pattern, p: Pattern, o: Pattern) -> Collection[tuple[int, Fact]]:
        """Return no triples: the copy is one graph. See `Facts.match_in`."""
        return ()

    def graph_names(self) -> Collection[int]:
        """Return no names: the copy is one graph."""
        return ()

    def count(self, p: Pattern) -> int:
        """Return the number of facts with the predicate ``p``; of all facts for None."""
        if p is None:
            return sum(map(len, self.columns.values()))
        predicate = self.terms.term(p)
        column = self.columns.get(predicate) if isinstance(predicate, NamedNode) else None
        return 0 if column is None else len(column)

    def kept(
        self, predicates: frozenset[int], key: Hashable, find: Callable[[], Iterable[Row]]
    ) -> Iterable[Row]:
        """Return the rows of ``find``: nothing is kept. See `Facts.kept`."""
        return find()
