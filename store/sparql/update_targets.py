"""The graphs that an update operation names as its targets, before its evaluation."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial

from pyoxigraph import NamedNode

from ..changes.commit import GraphName
from ..changes.owners import Owners, derived_graphs, refuse_targets
from .scan import template_graphs
from .update_text import (
    Clear,
    Create,
    Data,
    Load,
    Modify,
    OneGraph,
    Transfer,
    UpdateOperation,
)

_EMPTY_BLOCK = re.compile(r"\{\s*+(?>#[^\r\n]*+\s*+)*+\}")


def refuse_derived_targets(
    owned: Owners, operations: Iterable[UpdateOperation], iri: Callable[..., NamedNode]
) -> None:
    """Refuse an update that names a derived graph as a target in any of its operations.

    An operation with a syntax error is left out: its evaluation reports the error.

    Args:
        owned: the owners of graphs.
        operations: the operations of the update.
        iri: resolves the text of an IRI or prefixed name; the second argument is the ``prologue``.

    Raises:
        OwnedGraphError: an operation names a derived graph as its target.
    """
    derived = derived_graphs(owned)
    if derived:
        for operation in operations:
            with suppress(SyntaxError):
                refuse_targets(derived, targets(operation, partial(iri, prologue=operation.prologue)))


def targets(operation: UpdateOperation, iri: Callable[[str], GraphName]) -> Iterator[GraphName]:
    """Yield the named graphs that an operation writes to according to its text.

    The graphs of a template count even if the WHERE part has no solution. The graphs of data blocks are left
    out, except graphs with empty blocks: the caller sees the quads of the others.

    Args:
        operation: the operation.
        iri: resolves the text of an IRI or prefixed name.
    """
    match operation.action:
        case Data(quads):
            if quads.fill is None and _EMPTY_BLOCK.search(quads.text):
                yield from map(iri, template_graphs(quads.text)[0])
        case Modify() as action:
            yield from _modified(action, iri)
        case Load(target=str(target)) | Create(graph=target) | Clear(target=OneGraph(target)):
            yield iri(target)
        case Transfer(verb, source, target):
            if isinstance(target, OneGraph):
                yield iri(target.iri)
            if verb == "MOVE" and isinstance(source, OneGraph):
                yield iri(source.iri)


def _modified(action: Modify, iri: Callable[[str], GraphName]) -> Iterator[GraphName]:
    for template in (action.delete, action.insert):
        if template is None:
            continue
        if template.fill is not None:
            yield from template.fill.graphs
            continue
        named, outside = template_graphs(template.text)
        yield from map(iri, named)
        if outside and action.with_graph is not None:
            yield iri(action.with_graph)
