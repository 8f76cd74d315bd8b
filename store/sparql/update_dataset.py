"""The dataset of a WHERE part: the graphs that USING, or the parameters of the request, name."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pyoxigraph import NamedNode

from .update_plan import ABSENT, UpdateRequest
from .update_text import Modify

Graphs = tuple[list[NamedNode], list[NamedNode]]


def dataset_of(request: UpdateRequest, action: Modify, iri: Callable[[str], NamedNode]) -> Graphs | None:
    """The default and the named graphs, each once; None where neither text nor request names any."""
    if request.using_graphs is not None or request.using_named_graphs is not None:
        default, named = request.using_graphs or (), request.using_named_graphs or ()
    elif action.using or action.using_named:
        default, named = [iri(each) for each in action.using], [iri(each) for each in action.using_named]
    else:
        return None
    return list(dict.fromkeys(default)), list(dict.fromkeys(named))


def using_text(graphs: Graphs | None) -> str:
    """The clauses of an update with this dataset."""
    if graphs is None:
        return ""
    default, named = graphs
    if not default and not named:
        return f"USING <{ABSENT}>"  # both given and empty: an empty dataset
    return " ".join([*(f"USING {iri}" for iri in default), *(f"USING NAMED {iri}" for iri in named)])


def unused_variable(wish: str, taken: Iterable[str]) -> str:
    """Return the name that is wished for, made longer until nothing has it."""
    names = set(taken)
    while wish in names:
        wish += "_"
    return wish
