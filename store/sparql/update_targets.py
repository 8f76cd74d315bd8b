"""The graphs that an update operation names as its targets, before its evaluation."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from ..changes.commit import GraphName
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

_EMPTY_BLOCK = re.compile(r"\{\s*+(?:#[^\r\n]*+\s*+)*+\}")


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
