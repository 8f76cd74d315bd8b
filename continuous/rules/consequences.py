"""The consequences of given triples at one version of the store, computed once and not kept up to date."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pyoxigraph import NamedNode, Triple

from quadrill.store.changes.pending import PendingChanges, StoreView

from .content_rules import ContentProgram
from .facts import RememberedFacts
from .rule import Rule
from .store_facts import InputGraphs, StoreFacts
from .terms import RuleTerms
from .window_content import Check, WindowContent


def consequences_of(
    triples: Iterable[Triple],
    rules: Sequence[Rule],
    view: StoreView | PendingChanges,
    inputs: InputGraphs,
    into: NamedNode,
    *,
    base_iri: str | None = None,
    check: Check = lambda inferred, steps: None,
) -> list[Triple]:
    """Return the triples that follow from the content of a window, without the content itself.

    Args:
        triples: the triples of the window's elements that patterns outside of GRAPH match.
        rules: the rules of a set.
        view: the dataset at the version of the content.
        inputs: the input graphs of the set at this version.
        into: the graph of the set.
        base_iri: the base of relative IRIs that rules make.
        check: called regularly with the number of inferred triples and of steps; raises an error to give up.
    """
    terms = RuleTerms(base_iri)
    window = WindowContent(ContentProgram(rules, terms), check)
    ids, term = terms.dictionary.ids, terms.dictionary.terms
    own = [(ids[each.subject], ids[each.predicate], ids[each.object]) for each in triples]
    window.replace(window.program, own, RememberedFacts(StoreFacts(view, terms, inputs, into)))
    return [Triple(term[s], term[p], term[o]) for s, p, o in window.consequences()]  # type: ignore[arg-type]
