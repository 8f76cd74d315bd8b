"""Translation of a mapping's CONSTRUCT to algebra; clauses that one record cannot answer are rejected."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import NamedTuple

from ...algebra.nodes import Algebra
from ...algebra.query import Dialect, TemplateQuad
from .. import diagnostics
from .. import syntax as s
from ..context import Context, LanguageLimits, check_size
from ..parser import parse, parse_syntax

_DIALECT: Dialect = "cqels"
"""The dialect of a mapping's CONSTRUCT text: its templates may have GRAPH blocks.

The function `_check` rejects streams and windows in a mapping's CONSTRUCT.
"""
_HINT = "The WHERE of a mapping holds BIND, FILTER, VALUES, OPTIONAL and UNION; fields are variables already."
_REFUSED: dict[type, str] = {
    s.MinusGroup: "MINUS",
    s.GraphBlock: "GRAPH pattern",
    s.ServiceBlock: "SERVICE",
    s.StreamBlock: "STREAM block",
    s.WindowBlock: "WINDOW block",
}
_NO_FUNCTIONS = {
    "NOW": "Event time is that of the element, see the mapping's time.",
    "BNODE": "Write a blank node into the template: it is new for each record.",
    "TIMESTAMP": "Event time is that of the element, see the mapping's time.",
}


class Construct(NamedTuple):
    """The pattern and the template of a mapping's CONSTRUCT text.

    ``bound`` holds the variables that BIND sets and that are therefore no fields of a record.
    """

    pattern: Algebra
    template: tuple[TemplateQuad, ...]
    bound: frozenset[str]


def read_construct(text: str, base_iri: str) -> Construct:
    """Parse a mapping's CONSTRUCT text into algebra.

    Raises:
        QueryTextError: the CONSTRUCT text is wrong or has a clause that mappings reject; has line, column and
        hint.
        UnsupportedError: the CONSTRUCT text is correct SPARQL but uses a construct that this server does not
        implement.
    """
    context = Context(text, _DIALECT, base_iri, {}, LanguageLimits())
    check_size(context)
    bound: set[str] = set()
    if not context.faults:
        _check(parse_syntax(context), context, bound)
    if context.faults:
        raise diagnostics.error_of(context)
    query = parse(text, dialect=_DIALECT, base_iri=base_iri)
    return Construct(query.root, query.template, frozenset(bound))


def _check(unit: s.Unit, context: Context, bound: set[str]) -> None:
    query = unit.query
    if query.form != "construct" or query.template is None:
        what = "the short form of CONSTRUCT" if query.form == "construct" else query.form.upper()
        context.fault(
            f"a mapping is a CONSTRUCT with a template, not {what}",
            query.at,
            "Write CONSTRUCT { … } WHERE { … }.",
        )
        return
    if query.datasets:
        context.fault(
            "a mapping reads records, so it has no FROM and no other dataset clause", query.at, _HINT
        )
    modifiers = query.modifiers
    if modifiers != s.Modifiers():
        place = next(
            _places(
                (modifiers.group_by, modifiers.having, modifiers.order_by, modifiers.limit, modifiers.offset)
            ),
            query.at,
        )
        context.fault("a mapping has no GROUP BY, HAVING, ORDER BY, LIMIT and OFFSET", place, _HINT)
    if query.where is not None:
        _check_group(query.where, context, bound)


def _check_group(group: s.GroupPattern, context: Context, bound: set[str]) -> None:
    for element in group.elements:
        refused = _REFUSED.get(type(element))
        match element:
            case s.Triples(subjects):
                place = next((each.at for subject in subjects for each in subject.properties), group.at)
                context.fault("a mapping has no graph patterns: there is no graph to match", place, _HINT)
            case s.SubSelect(select):
                context.fault("a mapping has no sub-queries", select.at, _HINT)
            case s.Optional(inner):
                _check_group(inner, context, bound)
            case s.Alternatives(groups):
                for each in groups:
                    _check_group(each, context, bound)
            case s.FilterClause(condition):
                _check_expression(condition, context)
            case s.BindClause(expression, variable):
                _check_expression(expression, context)
                bound.add(variable.name)
                if any(
                    isinstance(each, s.Variable) and each.name == variable.name for each in _all(expression)
                ):
                    context.fault(
                        f"BIND cannot set ?{variable.name} from itself",
                        variable.at,
                        "Choose another name: one that BIND sets is not taken from the record.",
                    )
            case s.ValuesBlock():
                pass
            case _ if refused is not None:
                place = next(_places(element), group.at)
                context.fault(f"a mapping has no {refused}", place, _HINT)


def _check_expression(expression: s.Expression, context: Context) -> None:
    for each in _all(expression):
        if isinstance(each, s.ExistsText):
            context.fault("a mapping has no EXISTS: there is no graph to match", each.at, _HINT)
        elif isinstance(each, s.Operation) and each.name in _NO_FUNCTIONS:
            context.fault(f"a mapping has no {each.name}()", each.at, _NO_FUNCTIONS[each.name])


def _all(node: object) -> Iterator[object]:
    """Iterate over all nodes of a syntax tree except the nodes inside EXISTS."""
    stack = [node]
    while stack:
        each = stack.pop()
        if isinstance(each, tuple):
            stack.extend(each)
        elif is_dataclass(each):
            yield each
            if not isinstance(each, s.ExistsText):
                stack.extend(getattr(each, field.name) for field in fields(each))


def _places(node: object) -> Iterator[int]:
    """Iterate over the text offsets of a syntax tree's nodes, smallest offset first."""
    nodes = [each for each in _all(node) if is_dataclass(each)]
    yield from sorted(
        getattr(each, name.name) for each in nodes for name in fields(each) if name.name == "at"
    )
