"""Triple patterns as query text: one subject's properties together, reifiers as ``<< >>``.

What is written is read back as the same patterns in the same order; where ``<< >>`` would change the order,
the triple of rdf:reifies is written itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyoxigraph import NamedNode, Triple

from ..algebra import nodes as a
from ..algebra.nodes import TermPattern, TriplePattern, Var
from ..algebra.printer import Printer
from .terms import RDF_REIFIES

Pattern = TriplePattern | a.Path


def triple_lines(printer: Printer, count: Mapping[str, int], run: Sequence[Pattern]) -> list[str]:
    """The statements of a run, each ended by a dot; ``count`` says how often the text has each variable."""
    return _Run(printer, count, run).lines()


class _Run:
    """One run. A *unit* is the reifying triple of a ``<< >>`` with those of the ones inside it, before it."""

    def __init__(self, printer: Printer, count: Mapping[str, int], run: Sequence[Pattern]) -> None:
        self._printer = printer
        self._count = count
        self._run = run
        # Hidden reifiers and the place of their triple; one that reifies two triples is no ``<< >>``.
        self._own: dict[str, int] = {}
        twice: set[str] = set()
        for place, item in enumerate(run):
            if self._reifies(item):
                assert isinstance(item.subject, Var)
                twice.update({item.subject.name} & self._own.keys())
                self._own[item.subject.name] = place
        for name in twice:
            del self._own[name]

    @staticmethod
    def _reifies(item: Pattern) -> bool:
        return (
            isinstance(item, TriplePattern)
            and isinstance(item.subject, Var)
            and item.subject.hidden
            and item.predicate == RDF_REIFIES
            and isinstance(item.object, (a.TripleTerm, Triple))
        )

    def lines(self) -> list[str]:
        """The lines of all statements."""
        lines: list[str] = []
        place = 0
        starts = {self._start(own): own for own in sorted(self._own.values())}  # the outermost unit wins
        while place < len(self._run):
            own = starts.get(place)
            statement = None if own is None else self._reified_statement(own)
            if statement is None:
                subject = self._run[place].subject
                properties, place = self._properties(subject, place)
                statement = self._printer.term(subject), properties, place
            lines += _statement(statement[0], statement[1])
            place = statement[2]
        return lines

    def _reified_statement(self, own: int) -> tuple[str, list[str], int] | None:
        """``<< s p o >> p2 o2 ; …``: None when the reifier is used elsewhere, too."""
        subject = self._run[own].subject
        assert isinstance(subject, Var)
        properties, end = self._properties(subject, own + 1)
        used = sum(self._run[place].subject == subject for place in range(own + 1, end))
        if used + 1 != self._count[subject.name]:
            return None
        return self._reified(own), properties, end

    def _properties(self, subject: TermPattern, place: int) -> tuple[list[str], int]:
        """The verbs with their objects from a place on, as long as the subject is the same."""
        found: list[str] = []
        last: object = None
        while place < len(self._run) and self._run[place].subject == subject:
            item = self._run[place]
            place += 1
            text = self._printer.term(item.object) if not isinstance(item.object, Var) else None
            if isinstance(item.object, Var):
                own = self._object_unit(item.object, place)
                if own is None:
                    text = self._printer.var(item.object)
                else:
                    text, place = self._reified(own), own + 1
            verb = item.path if isinstance(item, a.Path) else item.predicate
            if found and verb == last:
                found[-1] += f" , {text}"
            else:
                found.append(f"{self._verb(item)} {text}")
            last = verb
        return found, place

    def _verb(self, item: Pattern) -> str:
        if isinstance(item, a.Path):
            return self._printer.path(item.path)
        return self._printer.verb(item.predicate)

    # --- << >>

    def _object_unit(self, var: Var, place: int) -> int | None:
        """The unit that starts right behind a triple whose object it is."""
        own = self._inner(var)
        return own if own is not None and self._start(own) == place else None

    def _inner(self, term: TermPattern) -> int | None:
        """The reifying triple of a term that occurs there and in one other place."""
        if not isinstance(term, Var) or self._count[term.name] != 2:
            return None
        return self._own.get(term.name)

    def _parts(self, own: int) -> tuple[int | None, int | None, int]:
        """The units inside a unit, as its subject and object, and the place where the whole starts."""
        start = own
        term = self._run[own].object
        if not isinstance(term, a.TripleTerm):
            return None, None, start
        inside: list[int | None] = []
        for part in (term.object, term.subject):
            unit = self._inner(part)
            fits = unit is not None and unit == start - 1
            inside.append(unit if fits else None)
            if fits:
                assert unit is not None
                start = self._start(unit)
        return inside[1], inside[0], start

    def _start(self, own: int) -> int:
        return self._parts(own)[2]

    def _reified(self, own: int) -> str:
        term = self._run[own].object
        assert isinstance(term, (a.TripleTerm, Triple))
        subject, obj, _ = self._parts(own)
        texts = [
            self._printer.term(part) if unit is None else self._reified(unit)
            for part, unit in ((term.subject, subject), (term.object, obj))
        ]
        predicate: NamedNode | Var = term.predicate
        return f"<< {texts[0]} {self._printer.verb(predicate)} {texts[1]} >>"


def _statement(subject: str, properties: list[str]) -> list[str]:
    if not properties:
        return [f"{subject} ."]
    lines = [f"{subject} {properties[0]}", *(f"  {each}" for each in properties[1:])]
    return [f"{line} ;" for line in lines[:-1]] + [f"{lines[-1]} ."]
