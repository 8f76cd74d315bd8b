"""Ids of terms, in the form in which the store keeps them or as they were written."""

from __future__ import annotations

from pyoxigraph import BlankNode, Literal, NamedNode, Triple

from quadrill.store.dictionary import TermDictionary
from quadrill.store.terms import store_form

from ..algebra import nodes as n
from ..expressions.compile import ExpressionContext
from ..expressions.values import ValueTable


class RuleTerms:
    """The term dictionary of a rule set or of shapes, and the context in which expressions are evaluated.

    Attributes:
        in_store_form: True if literals have ids in the form in which the store keeps them, for instance the
            xsd:byte 07 that of the xsd:integer 7; False if each literal has an id as it was written.
    """

    def __init__(
        self, base_iri: str | None = None, values: ValueTable | None = None, *, in_store_form: bool = True
    ) -> None:
        """Create the terms; ``values`` has the dictionary to use, None creates an empty one."""
        values = ValueTable(TermDictionary()) if values is None else values
        self.in_store_form = in_store_form
        self.dictionary = values.dictionary
        self.context = ExpressionContext(values, base_iri)

    def id_of(self, term: n.Term) -> int:
        """Return the id of a term."""
        if self.in_store_form and isinstance(term, Literal | Triple):
            term = store_form(term)
        return self.dictionary.ids[term]

    def term(self, term_id: int) -> n.Term:
        """Return the term of an id."""
        return self.dictionary.terms[term_id]

    def pattern(
        self, s: int | None, p: int | None, o: int | None
    ) -> tuple[NamedNode | BlankNode | None, NamedNode | None, n.Term | None] | None:
        """Return the terms of a triple pattern, None for any term; None if RDF allows no such triple."""
        terms = self.dictionary.terms
        subject = None if s is None else terms[s]
        predicate = None if p is None else terms[p]
        if isinstance(subject, Literal | Triple) or not (
            predicate is None or isinstance(predicate, NamedNode)
        ):
            return None
        return subject, predicate, None if o is None else terms[o]
