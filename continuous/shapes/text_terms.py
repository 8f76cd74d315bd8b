"""Terms as the text report shows them: short IRIs, and blank nodes with their properties."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from pyoxigraph import BlankNode, Literal, NamedNode

from quadrill.store.terms import Term, term_text

from .vocabulary import FIRST, NIL, REST, STRING, USUAL_PREFIXES

_LOCAL = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(?<!\.)|").fullmatch
_DEEPEST = 12
"""Maximum number of levels of blank nodes inside blank nodes that are shown."""
_MOST = 100
"""Maximum number of members of a list, or of properties of a blank node, that are shown."""


class ReportTerms:
    """Texts of terms; a blank node is shown with the properties that it has in given triples."""

    def __init__(self, triples: Iterable[tuple[Term, NamedNode, Term]], prefixes: Mapping[str, str]) -> None:
        self._prefixes = sorted({**USUAL_PREFIXES, **prefixes}.items(), key=lambda item: -len(item[1]))
        self._objects: dict[Term, dict[NamedNode, list[Term]]] = {}
        self._add(triples)

    def with_triples(self, triples: Iterable[tuple[Term, NamedNode, Term]]) -> ReportTerms:
        """Return an object with the same prefixes that takes properties from other triples."""
        found = ReportTerms((), {})
        found._prefixes = self._prefixes
        found._add(triples)
        return found

    def text(self, term: Term, depth: int = 0) -> str:
        """Return the text of a term, for instance ``ex:ann``, or ``Literal("1", datatype=xsd:integer)``."""
        match term:
            case NamedNode():
                return self._iri(term)
            case BlankNode():
                return self._blank(term, depth)
            case Literal():
                return self._literal(term)
            case _:
                return term_text(term)

    def _add(self, triples: Iterable[tuple[Term, NamedNode, Term]]) -> None:
        for s, p, o in triples:
            if isinstance(s, BlankNode):
                self._objects.setdefault(s, {}).setdefault(p, []).append(o)

    def _iri(self, iri: NamedNode) -> str:
        for prefix, start in self._prefixes:
            if iri.value.startswith(start) and _LOCAL(iri.value[len(start) :]):
                return f"{prefix}:{iri.value[len(start) :]}"
        return str(iri)

    def _literal(self, literal: Literal) -> str:
        if literal.language is not None:
            return f'Literal("{literal.value}", lang={literal.language})'
        if literal.datatype == STRING:
            return f'Literal("{literal.value}")'
        return f'Literal("{literal.value}", datatype={self._iri(literal.datatype)})'

    def _blank(self, node: BlankNode, depth: int) -> str:
        properties = self._objects.get(node)
        if not properties:
            return str(node)
        if depth >= _DEEPEST:
            return "[ … ]"
        if FIRST in properties:
            return self._list(node, depth)
        shown = sorted(
            f"{self._iri(p)} {', '.join(sorted(self.text(o, depth + 1) for o in objects))}"
            for p, objects in list(properties.items())[:_MOST]
        )
        return f"[ {' ; '.join(shown)} ]"

    def _list(self, node: Term, depth: int) -> str:
        members: list[str] = []
        while node != NIL and len(members) < _MOST:
            cell = self._objects.get(node, {})
            members += [self.text(value, depth + 1) for value in cell.get(FIRST, ())[:1]]
            node = cell.get(REST, [NIL])[0]
        return f"( {' '.join(members)} )"
