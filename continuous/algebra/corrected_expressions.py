"""Rewrites expressions that Oxigraph evaluates incorrectly into expressions with SPARQL's value.

`corrected_call` returns None for a call that needs no correction. A correction that SPARQL text cannot
express calls a function of `CORRECTING`, which the evaluator of the text registers with Oxigraph.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from pyoxigraph import Literal, NamedNode

from quadrill.store.documents.parsing import TAGGED_TYPES

from . import nodes as n
from .nodes import Call, Constant, Expr, FunctionCall, Var
from .order import XSD
from .regex_text import pattern_text, replacement_text

ADD = NamedNode("urn:quadrill:corrected:add")
ADJUST = NamedNode("urn:quadrill:corrected:adjust")
PATTERN = NamedNode("urn:quadrill:corrected:pattern")
REPLACEMENT = NamedNode("urn:quadrill:corrected:replacement")
CORRECTING = frozenset((ADD, ADJUST, PATTERN, REPLACEMENT))
"""Custom functions that corrected texts call: a sum, ADJUST, and conversions of patterns and replacements."""

_LARGEST_OPERAND = 4
"""Largest operand, in nodes, of a sum that is rewritten inline, because the rewriting repeats each operand
three times."""
_NUMERIC = frozenset("* / STRLEN YEAR MONTH DAY HOURS MINUTES SECONDS ABS CEIL FLOOR ROUND RAND".split())
_NUMERIC_TYPES = frozenset(
    XSD + name
    for name in "integer decimal double float int long short byte nonNegativeInteger positiveInteger "
    "nonPositiveInteger negativeInteger unsignedInt unsignedLong unsignedShort unsignedByte".split()
)
_UTC = Constant(Literal("PT0S", datatype=NamedNode(XSD + "dayTimeDuration")))
_TAGGED = tuple(Constant(NamedNode(iri)) for iri in sorted(TAGGED_TYPES))
_TEMPORAL_TYPES = frozenset(
    XSD + name
    for name in (
        "date",
        "time",
        "dateTime",
        "dateTimeStamp",
        "duration",
        "dayTimeDuration",
        "yearMonthDuration",
    )
)


class Calls(NamedTuple):
    """The kinds of calls that are corrected for Oxigraph.

    Attributes:
        languages: the variables that hold language tags.
        moments: correct ``+``, and ADJUST with two arguments.
        patterns: correct the regular expression of REGEX.
        replacements: correct the calls of REPLACE.
    """

    languages: frozenset[str]
    moments: bool = True
    patterns: bool = True
    replacements: bool = True


def corrected_call(expr: Expr, calls: Calls) -> Expr | None:
    """Return the correction of a call whose arguments are corrected already; None if it needs none."""
    match expr:
        case Call("+", (left, right)) if calls.moments:
            return _sum(left, right)
        case Call("ADJUST", (moment,)):
            return Call("ADJUST", (moment, _UTC))
        case Call("ADJUST", (moment, zone)) if calls.moments:
            return _adjusted(moment, zone)
        case Call("REGEX", (text, pattern, *flags)):
            flags, of_tag = _of_language(flags, is_language(text, calls.languages))
            expr = Call("REGEX", (text, pattern, *flags)) if of_tag else expr
            found = _with_pattern(expr, text, pattern, None, flags) if calls.patterns else None
            return found or (expr if of_tag else None)
        case Call("REPLACE", (text, pattern, replacement, *flags)) if calls.replacements:
            return _with_pattern(expr, text, pattern, replacement, flags)
        case Call("STRDT", (text, datatype)):
            return _typed(text, datatype)
        case Call(name, args) if name in _COMPARING:
            return _compared(expr, args, calls.languages)
        case _:
            return None


def is_language(expr: Expr, languages: frozenset[str]) -> bool:
    """Return True for an expression whose value is a language tag."""
    match expr:
        case Var(name):
            return name in languages
        case Call("LANG", _):
            return True
        case Call("STR", (inner,)):
            return is_language(inner, languages)
        case Call("COALESCE", args) | Call("IF", (_, *args)):
            # "" is the tag of a literal without a language.
            tags = [is_language(each, languages) for each in args]
            texts = [_constant(each) == "" for each in args]
            return any(tags) and all(tag or text for tag, text in zip(tags, texts, strict=True))
        case _:
            return False


# --- sums of dates and durations: XPath and XQuery Functions and Operators 3.1, section 9.7


def _sum(left: Expr, right: Expr) -> Expr | None:
    """Return a sum as COALESCE over the operand orders that XPath defines; None for a sum of numbers.

    Oxigraph reorders the operands of ``+`` and does not add a date-time to a duration. Oxigraph does not
    reorder subtractions, so subtracting the negated duration gives the sum.
    """
    if not (_may_be_temporal(left) and _may_be_temporal(right)):
        return None
    if max(_size(left), _size(right)) > _LARGEST_OPERAND:
        return FunctionCall(ADD, (left, right))
    ways = (
        Call("+", (left, right)),
        Call("-", (left, Call("UNARY-", (right,)))),
        Call("-", (right, Call("UNARY-", (left,)))),
    )
    return Call("COALESCE", ways)


def _adjusted(moment: Expr, zone: Expr) -> Expr | None:
    """Return ADJUST so that the empty string as zone removes the zone; None if the zone is a duration."""
    removed = FunctionCall(ADJUST, (moment, zone))
    if isinstance(zone, Constant):
        return removed if _constant(zone) == "" else None
    if max(_size(moment), _size(zone)) > _LARGEST_OPERAND:
        return removed
    return Call("COALESCE", (Call("ADJUST", (moment, zone)), removed))


def _may_be_temporal(expr: Expr) -> bool:
    match expr:
        case Constant(Literal() as literal):
            return literal.datatype.value in _TEMPORAL_TYPES
        case Constant():
            return False
        case Call(name, _) if name in _NUMERIC:
            return False
        case FunctionCall(iri, _):
            return iri.value not in _NUMERIC_TYPES
        case Call("UNARY-" | "UNARY+", (inner,)):
            return _may_be_temporal(inner)
        case Call("+" | "-", (left, right)):
            return _may_be_temporal(left) and _may_be_temporal(right)
        case _:
            return True


def _size(expr: Expr) -> int:
    args = expr.args if isinstance(expr, (Call, FunctionCall)) else ()
    return 1 + sum(map(_size, args))


# --- regular expressions: XPath and XQuery Functions and Operators 3.1, section 5.6


def _with_pattern(
    expr: Call, text: Expr, pattern: Expr, replacement: Expr | None, flags: list[Expr]
) -> Expr | None:
    mode = _constant(flags[0]) if flags else ""
    new_pattern, new_replacement = pattern, replacement
    found = _constant(pattern)
    if mode is not None and found is not None:
        new_pattern = _literal(pattern, pattern_text(found, mode))
    elif found is None or "\\" in found:
        new_pattern = FunctionCall(PATTERN, (pattern, *flags))
    if replacement is not None:
        put = _constant(replacement)
        if mode is not None and found is not None and put is not None:
            text_of = replacement_text(put, found, mode)
            new_replacement = _error(replacement) if text_of is None else _literal(replacement, text_of)
        elif put is None or "$" in put or "\\" in put:
            new_replacement = FunctionCall(REPLACEMENT, (replacement, pattern, *flags))
    if new_pattern is pattern and new_replacement is replacement:
        return None
    if replacement is None and isinstance(new_pattern, FunctionCall):
        # The original regular expression is valid for most rows, so the corrected one is computed only after
        # an error.
        return Call("COALESCE", (expr, Call("REGEX", (text, new_pattern, *flags))))
    replaced = () if new_replacement is None else (new_replacement,)
    return Call(expr.name, (text, new_pattern, *replaced, *flags))


def _constant(expr: Expr) -> str | None:
    """Return the text of a constant string without a language; None for an expression of another kind."""
    match expr:
        case Constant(Literal() as literal) if literal.datatype.value == XSD + "string":
            return literal.value
        case _:
            return None


def _literal(old: Expr, text: str) -> Expr:
    assert isinstance(old, Constant)
    return old if old.term.value == text else Constant(Literal(text))  # type: ignore[union-attr]


# --- language tags: RDF 1.2 Concepts 3.4, compared without case; the store keeps tags in lower case


_COMPARING = frozenset(("=", "!=", "IN", "NOT IN", "SAMETERM", "STRSTARTS", "STRENDS", "CONTAINS"))


def _compared(expr: Call, args: tuple[Expr, ...], languages: frozenset[str]) -> Expr | None:
    tags = [is_language(each, languages) for each in args]
    if not any(tags):
        return None
    new = tuple(each if tag else _lower(each) for each, tag in zip(args, tags, strict=True))
    return None if all(a is b for a, b in zip(new, args, strict=True)) else Call(expr.name, new)


def _of_language(flags: list[Expr], tag: bool) -> tuple[list[Expr], bool]:
    """Return REGEX flags that match a language tag without case, and whether the flags changed."""
    if not tag:
        return flags, False
    given = _constant(flags[0]) if flags else ""
    if given is not None:
        return ([Constant(Literal(given + "i"))], True) if "i" not in given else (flags, False)
    return [Call("CONCAT", (flags[0], Constant(Literal("i"))))], True


def _lower(expr: Expr) -> Expr:
    found = _constant(expr)
    if found is not None:
        return _literal(expr, found.lower())
    if isinstance(expr, Constant) or (isinstance(expr, Call) and expr.name == "LCASE"):
        return expr
    return Call("COALESCE", (Call("LCASE", (expr,)), expr))


def lower_text(term: n.Term | None) -> n.Term | None:
    """Return a string without a language in lower case, and any other term unchanged."""
    if not isinstance(term, Literal) or term.datatype.value != XSD + "string":
        return term
    return Literal(term.value.lower())


# --- datatypes of language strings: no literal without a tag has one (RDF 1.2 Concepts 3.4)


def _typed(text: Expr, datatype: Expr) -> Expr | None:
    """Return STRDT so that it fails for a datatype that needs a language tag; None if the call is correct."""
    error = _error(text)
    if isinstance(datatype, Constant):
        return error if datatype in _TAGGED else None
    return Call("IF", (Call("IN", (datatype, *_TAGGED)), error, Call("STRDT", (text, datatype))))


def _error(text: Expr) -> Expr:
    """Return an expression that always fails, because STRDT does not take a string as its datatype."""
    return Call("STRDT", (text, Constant(Literal(""))))


def rewritten(expr: Expr, calls: Calls, pattern: Callable[[n.Algebra], n.Algebra]) -> Expr:
    """Return an expression with every call corrected, inside out; the same object if none changed."""
    match expr:
        case n.Exists(inner, _):
            new = pattern(inner)
            return expr if new is inner else n.Exists(new, expr.negated)
        case Call(_, args) | FunctionCall(_, args):
            changed = tuple(rewritten(each, calls, pattern) for each in args)
            if not all(a is b for a, b in zip(changed, args, strict=True)):
                expr = Call(expr.name, changed) if isinstance(expr, Call) else FunctionCall(expr.iri, changed)
            return corrected_call(expr, calls) or expr
        case _:
            return expr
