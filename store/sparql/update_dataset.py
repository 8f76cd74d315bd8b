"""The dataset of a WHERE part: the graphs named by USING clauses or by the request's parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pyoxigraph import NamedNode

from .update_plan import ABSENT, UpdateRequest
from .update_text import Modify

Graphs = tuple[list[NamedNode], list[NamedNode]]


def dataset_of(request: UpdateRequest, action: Modify, iri: Callable[[str], NamedNode]) -> Graphs | None:
    """Return the default graphs and the named graphs of an update's WHERE part, without duplicates.

    Return None if the update has no USING clause and the request no parameter ``using-graph-uri`` or
    ``using-named-graph-uri``. These parameters override USING clauses.
    """
    if request.using_graphs is not None or request.using_named_graphs is not None:
        default, named = request.using_graphs or (), request.using_named_graphs or ()
    elif action.using or action.using_named:
        default, named = [iri(each) for each in action.using], [iri(each) for each in action.using_named]
    else:
        return None
    return list(dict.fromkeys(default)), list(dict.fromkeys(named))


def using_text(graphs: Graphs | None) -> str:
    """Return the USING clauses for a dataset of graphs; empty for None."""
    if graphs is None:
        return ""
    default, named = graphs
    if not default and not named:
        return f"USING <{ABSENT}>"  # both lists of graphs are empty: the dataset is empty
    return " ".join([*(f"USING {iri}" for iri in default), *(f"USING NAMED {iri}" for iri in named)])


def unused_variable(wish: str, taken: Iterable[str]) -> str:
    """Return ``wish``, followed by as many underscores as make it differ from every name in ``taken``."""
    names = set(taken)
    while wish in names:
        wish += "_"
    return wish
