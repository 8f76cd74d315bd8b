"""Text to `ContinuousQuery`: the one entry point of the package."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from typing import Any

from lark import Lark
from lark.exceptions import UnexpectedInput

from quadrill.store.errors import QueryTextError, UnsupportedError

from ..algebra.query import ContinuousQuery, Dialect
from . import diagnostics
from . import syntax as s
from .build_queries import SyntaxBuilder
from .context import Context, Limits, check_size, detect_dialect
from .translate import translate
from .windows import words

_REMEMBERED_CHARACTERS = 10_000
"""The trees of longer texts are not kept."""

_LAST_WINDOW = "    | PAST_WINDOW                                         -> window_past\n"
"""Behind this alternative of sparql.lark the windows from outside are put."""

DIALECTS: tuple[Dialect, ...] = ("cqels", "rspql", "csparql", "sparql")


def parse(
    text: str,
    *,
    dialect: Dialect | None = None,
    base_iri: str = "http://localhost/",
    parameters: Mapping[str, Any] | None = None,
    limits: Limits | None = None,
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
    context = Context(text, dialect or "sparql", base_iri, parameters or {}, limits or Limits())
    check_size(context)
    if context.faults:
        raise diagnostics.error_of(context)
    context.dialect = dialect or detect_dialect(text)
    try:
        unit = parse_syntax(context)
        query = translate(unit, context)
    except RecursionError:
        raise QueryTextError(
            "the query is nested too deeply", code="limit", hint="Split it into several queries."
        ) from None
    if context.faults:
        raise diagnostics.error_of(context)
    if context.unsupported:
        missing = min(context.unsupported, key=lambda fault: fault.at)
        place = diagnostics.place_of(context.text, missing.at)
        raise UnsupportedError(missing.message, hint=missing.hint, **place)
    return query


def parse_syntax(context: Context) -> s.Unit:
    """Text to syntax tree; raises QueryTextError with every syntax fault that could be told apart."""
    grammar = grammar_of(context.dialect)
    try:
        if len(context.text) > _REMEMBERED_CHARACTERS:
            return grammar.parse(context.text)  # type: ignore[return-value]  # the embedded transformer's result
        return _remembered(context.dialect, words(), context.text)
    except UnexpectedInput:
        diagnostics.explain(context, grammar)
        raise diagnostics.error_of(context) from None


@lru_cache(maxsize=128)
def _remembered(dialect: Dialect, _words: tuple[str, ...], text: str) -> s.Unit:
    """The tree of a right text: nobody changes it, and instances of one query differ in their parameters."""
    return grammar_of(dialect).parse(text)  # type: ignore[return-value]  # the embedded transformer's result


def grammar_of(dialect: Dialect) -> Lark:
    """The LALR parser of a dialect, built once per process (0.2 s).

    One thread builds at a time: lark reads its grammars with CPython's ``ast``, whose recursion counter is
    shared by threads ("AST constructor recursion depth mismatch").
    """
    key = dialect, words()
    known = _grammars.get(key)
    if known is None:
        with _building:
            known = _grammars.get(key)
            if known is None:
                known = _grammars[key] = _build(*key)
    return known


_grammars: dict[tuple[Dialect, tuple[str, ...]], Lark] = {}
_building = threading.Lock()


def _build(dialect: Dialect, more: tuple[str, ...]) -> Lark:
    """The parser of a dialect; windows may also be written by ``more`` words with numbers behind them."""
    source = files(__package__)

    def load(_paths: Any, path: str) -> tuple[str, str]:
        name = re.split(r"[/\\]", path)[-1]
        text = (source / name).read_text(encoding="utf-8")
        if more and name == "sparql.lark":
            text = text.replace(_LAST_WINDOW, f"{_LAST_WINDOW}    | WINDOW_WORD NUMBER* -> window_word\n")
            text += f"\nWINDOW_WORD: /(?:{'|'.join(more)})(?!\\w)/i\n"
        return name, text

    return Lark(
        (source / f"{dialect}.lark").read_text(encoding="utf-8"),
        parser="lalr",
        start="unit",
        maybe_placeholders=True,
        transformer=SyntaxBuilder(),
        import_paths=[load],
        source_path=f"{dialect}.lark",
    )


def warm_up() -> None:
    """Build every grammar and parse a first text with it, so that no request waits for that."""
    for dialect in DIALECTS:
        grammar_of(dialect).parse("ASK {}")
