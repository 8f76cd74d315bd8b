"""Parsing of query texts to `ContinuousQuery`, and grammar rules of extensions (docs/extending.md)."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from lark import Lark, v_args
from lark.exceptions import UnexpectedInput

from quadrill.store.errors import QueryTextError, ReportedError, UnsupportedError
from quadrill.store.sparql.codepoints import without_escapes

from ..algebra.query import ContinuousQuery, Dialect
from . import diagnostics
from . import syntax as s
from .build_queries import SyntaxBuilder
from .context import Context, LanguageLimits, check_size, detect_dialect
from .kept_grammars import KeptGrammars
from .translate import translate
from .windows import words

_REMEMBERED_CHARACTERS = 10_000
"""Length in characters up to which the syntax tree of a query text is cached."""

_LAST_WINDOW = "    | TUMBLING duration                                   -> window_tumbling\n"
"""The alternative of the grammar sparql.lark after which the rule for windows of extensions is inserted."""

DIALECTS: tuple[Dialect, ...] = ("cqels", "rspql", "csparql", "sparql")


@dataclass(frozen=True, slots=True)
class DialectRule:
    """A grammar rule of an extension, which is translated to existing syntax nodes.

    ``grammar`` is the text of the extension's rule in lark's syntax that is appended to the dialect's
    grammar; ``name`` is the rule's name or alias in this text. The function ``build`` receives the tokens and
    nodes that the extension's rule matched, and returns a node of `syntax`.
    """

    name: str
    grammar: str
    build: Callable[..., Any]
    dialects: tuple[Dialect, ...] = ("cqels", "rspql", "csparql")


_rules: dict[str, DialectRule] = {}


def register_rule(rule: DialectRule) -> None:
    """Add a grammar rule of an extension, which texts parsed afterwards may use.

    Raises:
        ValueError: a grammar or another extension already has a rule of this name.
    """
    if rule.name in _rules or hasattr(SyntaxBuilder, rule.name):
        raise ValueError(f"there is a rule named {rule.name!r} already")
    _rules[rule.name] = rule


def unregister_rule(name: str) -> None:
    """Remove an extension's grammar rule; running queries that use the rule are not affected."""
    del _rules[name]


Additions = tuple[tuple[str, ...], tuple[DialectRule, ...]]
"""The additions of extensions to a grammar: keywords of windows, and rules."""


def _additions(dialect: Dialect) -> Additions:
    return words(), tuple(rule for rule in _rules.values() if dialect in rule.dialects)


def has_additions() -> bool:
    """Return True if an extension has added a grammar rule or a keyword of a window."""
    return bool(_rules or words())


def parse(
    text: str,
    *,
    dialect: Dialect | None = None,
    base_iri: str = "http://localhost/",
    parameters: Mapping[str, Any] | None = None,
    limits: LanguageLimits | None = None,
) -> ContinuousQuery:
    """Parse a query text of any dialect.

    Args:
        text: the query.
        dialect: its dialect; by default the one that its words show (`detect_dialect`).
        base_iri: the IRI against which relative IRIs are resolved if the text has no BASE.
        parameters: registration parameters: JSON values by the name between the dollar signs.
        limits: limits on the size of the text.

    Returns:
        The algebra of the query with its windows, dataset and registration clauses.

    Raises:
        QueryTextError: the text is wrong, or over a limit (``code`` is then ``limit``); ``faults`` lists up
            to ten independent faults of syntax, or up to a hundred other faults.
        UnsupportedError: the text is correct and uses a construct that is not implemented.
    """
    context = Context(
        without_escapes(text) if "\\" in text else text,
        dialect or "sparql",
        base_iri,
        parameters or {},
        limits or LanguageLimits(),
    )
    query = _translated(context, dialect)
    if context.faults:
        raise diagnostics.error_of(context)
    if context.unsupported:
        missing = min(context.unsupported, key=lambda fault: fault.at)
        place = diagnostics.place_of(context.text, missing.at)
        raise UnsupportedError(missing.message, hint=missing.hint, **place)
    return query


def scope_error(
    text: str, limits: LanguageLimits, whole: str | None = None, start: int = 0
) -> QueryTextError | None:
    """Check the scope rules of SPARQL 1.1 (sections 18.2.1, 19.6 and 19.8); return an error or None.

    Other faults of the text are ignored, because its evaluation reports them.

    Args:
        text: a SPARQL query.
        limits: limits on the size of the text.
        whole: the text from which ``text`` was taken; the error's position refers to this text.
        start: the offset of ``text`` in ``whole``.
    """
    context = Context(text, "sparql", "http://localhost/", {}, limits)
    with suppress(ReportedError):
        _translated(context, "sparql")
    found = [replace(fault, at=fault.at + start) for fault in context.faults if fault.of_scope]
    if not found:
        return None
    return diagnostics.error_of(replace(context, text=text if whole is None else whole, faults=found))


def _translated(context: Context, dialect: Dialect | None) -> ContinuousQuery:
    """Parse and translate a text; raise QueryTextError for syntax faults, and record others."""
    check_size(context)
    if context.faults:
        raise diagnostics.error_of(context)
    context.dialect = dialect or detect_dialect(context.text)
    try:
        return translate(parse_syntax(context), context)
    except RecursionError:
        raise QueryTextError(
            "the query is nested too deeply", code="limit", hint="Split it into several queries."
        ) from None


def parse_syntax(context: Context) -> s.Unit:
    """Parse a text to a syntax tree; raises QueryTextError with up to ten independent syntax faults."""
    grammar = grammar_of(context.dialect)
    try:
        if len(context.text) > _REMEMBERED_CHARACTERS:
            return grammar.parse(context.text)  # type: ignore[return-value]  # the embedded transformer's result
        return _remembered(context.dialect, _additions(context.dialect), context.text)
    except UnexpectedInput:
        diagnostics.explain(context, grammar)
        raise diagnostics.error_of(context) from None


@lru_cache(maxsize=128)
def _remembered(dialect: Dialect, _added: Additions, text: str) -> s.Unit:
    """Parse a text, cached: queries that differ only in parameters share the tree, which is immutable."""
    return grammar_of(dialect).parse(text)  # type: ignore[return-value]  # the embedded transformer's result


def grammar_of(dialect: Dialect, kept: KeptGrammars | None = None) -> Lark:
    """Return the LALR parser of a dialect, built once per process (0.3 s) or loaded from ``kept``.

    Only one thread builds a parser at a time, because lark uses CPython's ``ast``, whose recursion counter is
    shared by threads ("AST constructor recursion depth mismatch").
    """
    key = dialect, _additions(dialect)
    known = _grammars.get(key)
    if known is None:
        with _building:
            known = _grammars.get(key)
            if known is None:
                known = _grammars[key] = _build(*key, kept or KeptGrammars())
    return known


_grammars: dict[tuple[Dialect, Additions], Lark] = {}
_building = threading.Lock()


def _build(dialect: Dialect, additions: Additions, kept: KeptGrammars) -> Lark:
    """Load or build the parser of a dialect, including the rules and window words of extensions."""
    source = files(__package__)
    more, rules = additions
    methods = {rule.name: v_args(inline=True)(_method(rule)) for rule in rules}
    builder: type[SyntaxBuilder] = type("SyntaxBuilder", (SyntaxBuilder,), methods)
    found = None if more or rules else kept.find(dialect, builder())
    if found is not None:
        return found

    def load(_paths: Any, path: str) -> tuple[str, str]:
        name = re.split(r"[/\\]", path)[-1]
        text = (source / name).read_text(encoding="utf-8")
        if more and name == "sparql.lark":
            text = text.replace(_LAST_WINDOW, f"{_LAST_WINDOW}    | WINDOW_WORD NUMBER* -> window_word\n")
            text += f"\nWINDOW_WORD: /(?:{'|'.join(more)})(?!\\w)/i\n"
        return name, text

    own = (source / f"{dialect}.lark").read_text(encoding="utf-8")
    built = Lark(
        "\n".join([own, *(rule.grammar for rule in rules)]),
        parser="lalr",
        start="unit",
        maybe_placeholders=True,
        transformer=builder(),
        import_paths=[load],
        source_path=f"{dialect}.lark",
    )
    if not (more or rules):
        kept.keep(dialect, built)
    return built


def _method(rule: DialectRule) -> Callable[..., Any]:
    return lambda _, *matched: rule.build(*matched)


def warm_up(path: Path | None = None) -> None:
    """Load or build every grammar and parse one text with each, so that no request has to wait for a grammar.

    ``path`` is the cache file of built grammars for the next server start.
    """
    kept = KeptGrammars(path)
    for dialect in DIALECTS:
        grammar_of(dialect, kept).parse("ASK {}")
