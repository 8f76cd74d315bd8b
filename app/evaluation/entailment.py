"""The dataset of a query with the parameter ``entailment``: with the graph of one rule set, or of none.

entailment=family   default graph  =  default graph, or FROM graphs  ∪  graph of the set family
entailment=none     default graph and named graphs without the graphs of rule sets
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeAlias

from pyoxigraph import NamedNode

from quadrill.continuous.analysis.prepared import parsed
from quadrill.continuous.language.registration import NO_INFERRED
from quadrill.store.quads.quad_store import QuadStore

from ..http.protocol import DatasetScope

GraphOfSet: TypeAlias = Callable[[str], NamedNode]
"""Returns the graph of a rule set; raises NotFoundError for an unknown name."""

_FROM = re.compile(r"\bFROM\b", re.IGNORECASE)


def with_entailment(
    scope: DatasetScope, text: str, base_iri: str, store: QuadStore, graph_of: GraphOfSet
) -> DatasetScope:
    """Return the dataset with ``added_graphs`` and ``hidden_graphs`` of its parameter ``entailment``.

    The graphs of FROM and FROM NAMED become those of the dataset, because the store ignores the clauses of
    the text once the request has a dataset of its own.

    Args:
        scope: the dataset of the request.
        text: the query text of the client.
        base_iri: the base of relative IRIs.
        store: the store, whose queue has the graphs of rule sets.
        graph_of: returns the graph of a rule set.

    Raises:
        NotFoundError: there is no such rule set.
        ReportedError: the text has FROM and cannot be parsed.
    """
    if scope.entailment is None:
        return scope
    if scope.entailment == NO_INFERRED:
        hidden = store.queue.inferred_graphs()
        given = scope.default_graphs or scope.named_graphs or scope.union
        if not hidden or not (given or "graph" in text.lower() or _FROM.search(text)):
            return scope._replace(entailment=None)
        changed = scope._replace(hidden_graphs=hidden)
    else:
        changed = scope._replace(added_graphs=(graph_of(scope.entailment),))
    if scope.default_graphs is None and scope.named_graphs is None and not scope.union and _FROM.search(text):
        clause = parsed(text, base_iri).dataset
        if clause.default or clause.named:
            return changed._replace(default_graphs=list(clause.default), named_graphs=list(clause.named))
    return changed
