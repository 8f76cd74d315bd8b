"""Text to `ContinuousQuery`, the one entry point of the package; rules from outside (docs/extending.md)."""

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
"""The trees of longer texts are not kept."""

_LAST_WINDOW = "    | TUMBLING duration                                   -> window_tumbling\n"
"""Behind this alternative of sparql.lark the windows from outside are put."""

DIALECTS: tuple[Dialect, ...] = ("cqels", "rspql", "csparql", "sparql")


@dataclass(frozen=True, slots=True)
class DialectRule:
    """A grammar rule from outside, whose meaning is that of syntax nodes that are there already.

    ``grammar`` is lark's text, put behind that of the dialect; ``name`` is its rule or alias. ``build`` is
    given the tokens and nodes that the rule matched and returns a node of `syntax`.
    """

    name: str
    grammar: str
    build: Callable[..., Any]
    dialects: tuple[Dialect, ...] = ("cqels", "rspql", "csparql")


_rules: dict[str, DialectRule] = {}


def register_rule(rule: DialectRule) -> None:
    """Add a rule; texts that are read from now on may use it.

    Raises:
        ValueError: the grammars, or another rule from outside, have one of this name.
    """
    if rule.name in _rules or hasattr(SyntaxBuilder, rule.name):
        raise ValueError(f"there is a rule named {rule.name!r} already")
    _rules[rule.name] = rule


def unregister_rule(name: str) -> None:
    """Take a rule away again; running queries keep what it meant."""
    del _rules[name]


Additions = tuple[tuple[str, ...], tuple[DialectRule, ...]]
"""What a grammar has from outside: the words of windows, and rules."""


def _additions(dialect: Dialect) -> Additions:
    return words(), tuple(rule for rule in _rules.values() if dialect in rule.dialects)


def has_additions() -> bool:
    """True when texts may mean what somebody from outside says."""
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
        base_iri: what relative IRIs resolve against when the text has no BASE.
        parameters: registration parameters, JSON values by the name between the dollar signs.
        limits: how large the text may be.

    Returns:
        The algebra of the query with its windows, dataset and registration clauses.

    Raises:
        QueryTextError: the text is wrong, or over a limit (``code`` is then ``limit``); every
            independent fault is listed in ``faults``.
        UnsupportedError: the text is right and uses a construct that is missing here.
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
    """What breaks the rules of SPARQL 1.1, 18.2.1, 19.6 and 19.8 about names; None where nothing does.

    Other faults do not count: whoever evaluates the text tells them.

    Args:
        text: SPARQL Query.
        limits: how large it may be.
        whole: the text that it was taken from, where places are told.
        start: what is added to an offset for that.
    """
    context = Context(text, "sparql", "http://localhost/", {}, limits)
    with suppress(ReportedError):
        _translated(context, "sparql")
    found = [replace(fault, at=fault.at + start) for fault in context.faults if fault.of_scope]
    if not found:
        return None
    return diagnostics.error_of(replace(context, text=text if whole is None else whole, faults=found))


def _translated(context: Context, dialect: Dialect | None) -> ContinuousQuery:
    """The query of a text; raises QueryTextError where its form is wrong, other faults are noted."""
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
    """Text to syntax tree; raises QueryTextError with every syntax fault that could be told apart."""
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
    """The tree of a right text: nobody changes it, and instances of one query differ in their parameters."""
    return grammar_of(dialect).parse(text)  # type: ignore[return-value]  # the embedded transformer's result


def grammar_of(dialect: Dialect, kept: KeptGrammars | None = None) -> Lark:
    """The LALR parser of a dialect, built once per process (0.3 s), or read from those that are kept.

    One thread builds at a time: lark reads its grammars with CPython's ``ast``, whose recursion counter is
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
    """The parser of a dialect; windows may also be written by words from outside with numbers behind them."""
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
    """Have every grammar and parse a first text with it, so that no request waits for that.

    ``path``: the file where they are kept over restarts.
    """
    kept = KeptGrammars(path)
    for dialect in DIALECTS:
        grammar_of(dialect, kept).parse("ASK {}")
