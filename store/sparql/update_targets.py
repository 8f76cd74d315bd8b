"""The graphs that an update operation names as its targets, before its evaluation."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from ..changes.commit import GraphName
from .tokens import TokenKind, tokens
from .update_text import (
    Clear,
    Create,
    Data,
    Load,
    Modify,
    OneGraph,
    Piece,
    Transfer,
    UpdateOperation,
)

_EMPTY_BLOCK = re.compile(r"\{\s*+(?:#[^\r\n]*+\s*+)*+\}")
_NAMES = (TokenKind.IRI, TokenKind.PNAME)


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
                yield from map(iri, _graphs(quads)[0])
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
        named, outside = _graphs(template)
        yield from map(iri, named)
        if outside and action.with_graph is not None:
            yield iri(action.with_graph)


def _graphs(template: Piece) -> tuple[dict[str, None], bool]:
    """Return the texts of the graph names in a template, and whether it has triples outside of GRAPH."""
    named: dict[str, None] = {}
    outside = after_graph = False
    depth = 0
    for token in tokens(template.text):
        if token.kind is TokenKind.PUNCT and token.text in "{}":
            depth += 1 if token.text == "{" else -1
        elif depth == 1 and after_graph:
            after_graph = False
            if token.kind in _NAMES:
                named[token.text] = None
        elif depth == 1 and token.word == "GRAPH":
            after_graph = True
        elif depth == 1 and token.text != ".":
            outside = True
    return named, outside
