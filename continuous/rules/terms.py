"""The terms of a rule set: term ids, for terms in the form in which the store keeps them."""

from __future__ import annotations

from pyoxigraph import Literal, Triple

from quadrill.store.dictionary import TermDictionary
from quadrill.store.terms import store_form

from ..algebra import nodes as n
from ..expressions.compile import ExpressionContext
from ..expressions.values import ValueTable


class RuleTerms:
    """The term dictionary of a rule set, and the context in which its expressions are evaluated."""

    def __init__(self, base_iri: str | None = None) -> None:
        self.dictionary = TermDictionary()
        self.context = ExpressionContext(ValueTable(self.dictionary), base_iri)

    def id_of(self, term: n.Term) -> int:
        """Return the id of a term, which is first brought into the form in which the store keeps it."""
        return self.dictionary.ids[store_form(term) if isinstance(term, Literal | Triple) else term]

    def term(self, term_id: int) -> n.Term:
        """Return the term of an id."""
        return self.dictionary.terms[term_id]
