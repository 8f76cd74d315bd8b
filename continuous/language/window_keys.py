"""Finds the pattern that binds a window's variables of BY and PARTITION BY: the window's only block."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from pyoxigraph import NamedNode

from ..algebra.build import all_nodes, expressions
from ..algebra.nodes import Algebra, FunctionCall, Var, Window
from ..algebra.order import XSD
from ..algebra.print_triples import parts_of
from ..algebra.query import WindowDeclaration
from ..algebra.rewrites import move_outward
from ..algebra.static import is_volatile
from ..algebra.variables import in_scope
from .context import Context


def with_patterns(
    windows: Sequence[WindowDeclaration], root: Algebra, context: Context, places: Mapping[NamedNode, int]
) -> Iterator[WindowDeclaration]:
    """Iterate over the windows of a query, and set the patterns of windows with BY or PARTITION BY.

    ``places`` are the text offsets of the window declarations, for faults, which are added to the context.
    """
    read = [node for node in all_nodes(move_outward(root)) if isinstance(node, Window)]
    for window in windows:
        if window.spec.keys:
            blocks = {node.input for node in read if node.name == window.name or isinstance(node.name, Var)}
            pattern = _pattern(window, blocks, context, places[window.name])
            window = replace(window, spec=replace(window.spec, pattern=pattern))
        yield window


def _pattern(window: WindowDeclaration, blocks: set[Algebra], context: Context, at: int) -> Algebra | None:
    keys = window.spec.keys
    if len(blocks) != 1:
        names = " ".join(f"?{each.name}" for each in keys)
        message = f"BY {names} is of the one block of its window, which has {len(blocks)}"
        context.fault(message, at, "Declare a window for each block.")
        return None
    (block,) = blocks
    for key in keys:
        if key.name not in in_scope(block):
            message = f"?{key.name} is no variable of the block of the window"
            context.fault(message, at, "BY names what the pattern in the braces binds.")
    if any(is_volatile(each) for node in all_nodes(block) for each in expressions(node)):
        context.missing("NOW() or RAND() in the block of a window with BY", at, "Move it out.")
    if any(isinstance(each, FunctionCall) and XSD not in each.iri.value for each in parts_of(block)):
        context.missing("a function by IRI in the block of a window with BY", at, "Move it out.")
    return block
