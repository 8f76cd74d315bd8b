"""Translation of windows and durations of all dialects to window declarations."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import NamedTuple

from pyoxigraph import NamedNode

from quadrill.store.documents.times import (
    COMPACT_PART,
    LONGEST_DURATION,
    UNITS_NS,
    iso_ns,
    readable_duration,
    unit_named,
)

from ..algebra.nodes import Algebra, Var
from ..algebra.query import Dialect, WindowDeclaration, WindowSpec
from . import syntax as s
from .context import Context
from .instants import instant_ms
from .terms import Terms
from .window_keys import with_patterns

GREATEST_MS = 2**53


def duration_ms(context: Context, text: s.DurationText, what: str) -> int:
    """Convert a duration to milliseconds; a fraction is rounded up with a warning.

    A wrong duration adds a fault to the context, and the result is 1.
    """
    if text.words and context.dialect == "rspql":
        context.fault(
            "RSP-QL* writes durations as xsd:duration",
            text.at,
            f"Write {_iso_of(text)} instead of the words.",
        )
    written = _written(text)
    if len(written) > LONGEST_DURATION:
        context.fault(f"{what} has {len(written)} characters, which is no duration", text.at)
        return 1
    nanoseconds = _nanoseconds(context, text)
    if nanoseconds is None:
        return 1
    if nanoseconds <= 0:
        context.fault(f"{what} must be longer than 0, it is {written}", text.at)
        return 1
    if nanoseconds > GREATEST_MS * 10**6:
        context.fault(f"{what} of {written} is longer than the {GREATEST_MS} ms that can be counted", text.at)
        return 1
    if written.isdigit():
        iso = context.dialect == "rspql"
        meant, as_is = (
            (f"PT{written}S", f"PT{int(written) / 1000:g}S") if iso else (f"{written}s", f"{written}ms")
        )
        context.warn(
            f"{what} of {written} has no unit, so it is {written} ms: "
            f"write {meant} for seconds, or {as_is} if milliseconds are meant."
        )
    milliseconds, rest = divmod(nanoseconds, 10**6)
    if rest:
        milliseconds += 1
        context.warn(f"{what} of {written} is rounded up to {int(milliseconds)} ms, the unit of event times.")
    return int(milliseconds)


def _nanoseconds(context: Context, text: s.DurationText) -> Fraction | None:
    total = Fraction(0)
    for number, unit in text.parts:
        if unit == "compact":
            for digits, suffix in COMPACT_PART.findall(number):
                total += Fraction(digits) * UNITS_NS[suffix]
        elif unit:
            total += Fraction(number) * UNITS_NS[unit_named(unit)]
        elif number.isdecimal():
            total += int(number) * UNITS_NS["ms"]
        else:
            part = _iso_nanoseconds(context, number, text.at)
            if part is None:
                return None
            total += part
    return total


def _iso_nanoseconds(context: Context, number: str, at: int) -> Fraction | None:
    try:
        found = iso_ns(number)
    except ValueError:
        context.fault(
            f"{number} has years or months, whose length is not fixed",
            at,
            "Write it in days, hours, minutes, seconds.",
        )
        return None
    if found is None:
        context.fault(
            f"{number} is not a duration", at, "Write 10s, 2m30s, PT10S, or a whole number of milliseconds."
        )
    return found


def _written(text: s.DurationText) -> str:
    return " ".join(number if unit in ("", "compact") else f"{number} {unit}" for number, unit in text.parts)


def _iso_of(text: s.DurationText) -> str:
    parts = []
    for number, unit in text.parts:
        letter = unit_named(unit)
        if letter in ("h", "m", "s"):
            parts.append(f"{number}{letter.upper()}")
        else:
            return "a duration such as PT10S"
    return "PT" + "".join(parts)


WINDOW_NAMESPACE = "urn:quadrill:window:"
_GREATEST_COUNT = 10_000_000


class _Form(NamedTuple):
    text: str
    dialects: tuple[Dialect, ...]


_EVERY_DIALECT: tuple[Dialect, ...] = ("cqels", "rspql", "csparql")
_FORMS: dict[str, _Form] = {
    "now": _Form("[NOW]", ("cqels",)),
    "all": _Form("[ALL]", ("cqels",)),
    "triples": _Form("[TRIPLES n]", ("cqels",)),
    "batch": _Form("[RANGE TRIPLES n]", ("csparql",)),
    "elements": _Form("[ELEMENTS n]", ("rspql",)),
    "range": _Form("[RANGE d]", _EVERY_DIALECT),
    "past": _Form("[RANGE d TO d]", _EVERY_DIALECT),
    "sliding": _Form("[SLIDING d]", ("rspql",)),
    "session": _Form("[SESSION d]", _EVERY_DIALECT),
    "latest": _Form("[LATEST n BY ?v]", ("cqels", "rspql")),
}
"""For each window kind of the grammar: its form in messages, and the dialects that have the kind."""
DIALECT_NAMES = {"cqels": "CQELS-QL", "rspql": "RSP-QL*", "csparql": "C-SPARQL", "sparql": "SPARQL"}
_INSTEAD = {
    "cqels": "CQELS-QL has [NOW], [RANGE d SLIDE d], [TRIPLES n], [LATEST n BY ?v], [SESSION d] and [ALL].",
    "rspql": "RSP-QL* has [RANGE PT10S STEP PT5S], [ELEMENTS n STEP m], [LATEST n BY ?v], [SESSION PT10S].",
    "csparql": "C-SPARQL has [RANGE 10s STEP 5s], [RANGE 10s TUMBLING], [RANGE TRIPLES n] and [SESSION 10s].",
}


@dataclass(frozen=True, slots=True)
class WindowWord:
    """The syntax of a window kind of an extension: a keyword and whole numbers, such as ``[NEWEST 5]``.

    Attributes:
        word: the keyword in capitals; query texts may write it in any case.
        numbers: a name for each number, for messages; the first number is the spec's ``count``, the second
            its ``step``.
        dialects: the dialects that have the window.
    """

    word: str
    numbers: tuple[str, ...]
    dialects: tuple[Dialect, ...] = ("cqels", "rspql", "csparql")

    def text(self, spec: WindowSpec) -> str:
        """Return the text between the brackets of a window."""
        given = (spec.count, spec.step)[: len(self.numbers)]
        return " ".join((self.word, *map(str, given)))


_words: dict[str, tuple[str, WindowWord]] = {}


def add_word(kind: str, word: WindowWord) -> None:
    """Add the keyword for windows of an extension's kind to the grammar of query texts.

    The kind itself is registered in `quadrill.continuous.windows.kinds`.
    """
    ours = any(form.text.startswith(f"[{word.word}") for form in _FORMS.values())
    if ours or word.word in _words or len(word.numbers) > 2 or not re.fullmatch("[A-Z][A-Z_]*", word.word):
        raise ValueError(f"{word.word!r} cannot be the word of a window")
    _words[word.word] = kind, word


def remove_word(word: WindowWord) -> None:
    """Remove the keyword of a window kind from the grammar of query texts."""
    del _words[word.word]


def words() -> tuple[str, ...]:
    """Return the sorted keywords of window kinds that extensions have added."""
    return tuple(sorted(_words))


def word_of(kind: str) -> WindowWord:
    """Return the keyword of a window kind of an extension."""
    return next(word for known, word in _words.values() if known == kind)


class _Key(NamedTuple):
    stream: NamedNode
    spec: WindowSpec
    lateness_ms: int | None
    bounds: tuple[Var, Var] | None


class Windows:
    """Collector of the window declarations of one query, in the order of the text."""

    def __init__(self, context: Context, terms: Terms) -> None:
        self.context = context
        self.terms = terms
        self.report: str | None = None
        self._declarations: dict[NamedNode, WindowDeclaration] = {}
        self.places: dict[NamedNode, int] = {}
        self._shared: dict[_Key, NamedNode] = {}
        self._used: set[NamedNode] = set()

    @property
    def declarations(self) -> tuple[WindowDeclaration, ...]:
        """All declared windows of the query, in the order of the text."""
        return tuple(self._declarations.values())

    # --- clauses and blocks that declare windows

    def clause(self, clause: s.WindowClause) -> None:
        """Declare the window of a ``FROM NAMED WINDOW``, ``FROM STREAM`` or ``FROM NAMED … AS ?w`` clause."""
        stream = self.terms.iri(clause.stream)
        if isinstance(clause.name, s.Variable):
            name = self.declare(stream, clause.window, clause.at)
            if clause.name.name in self.context.window_variables:
                self.context.fault(f"?{clause.name.name} names two windows", clause.name.at)
            self.context.window_variables[clause.name.name] = name
        elif clause.name is None:
            self._used.add(self.declare(stream, clause.window, clause.at, share=False))
        else:
            self.declare(stream, clause.window, clause.at, name=self.terms.iri(clause.name))

    def use(self, name: NamedNode | Var, at: int) -> None:
        """Mark the window that a WINDOW block reads as used; a block with a variable uses all windows."""
        if isinstance(name, Var):
            self._used.update(self._declarations)
            if not self._declarations:
                self.context.fault(
                    f"WINDOW ?{name.name} has no window to range over",
                    at,
                    "Declare one: FROM NAMED WINDOW <w> ON <s> […]",
                )
            return
        self._used.add(name)
        if name in self._declarations:
            return
        declared = [declared.value for declared in self._declarations]
        near = difflib.get_close_matches(name.value, declared, 1)
        hint = "Declare it before WHERE: FROM NAMED WINDOW <w> ON <stream> [RANGE PT10S STEP PT5S]"
        if near:
            hint = f"Did you mean <{near[0]}>?"
        elif declared:
            hint = "Declared: " + ", ".join(f"<{each}>" for each in declared)
        self.context.fault(f"the window <{name.value}> is not declared", at, hint)

    def bounds_of(self, name: NamedNode | Var) -> tuple[Var, ...]:
        """Return the variables that BOUNDS binds in a block over a window, or over all windows."""
        read = [each for each in self.declarations if isinstance(name, Var) or each.name == name]
        return tuple(dict.fromkeys(var for each in read for var in each.bounds or ()))

    def read_by_element(self, name: NamedNode | Var, at: int) -> None:
        """Note that a block reads a window, or all windows, element by element (AT)."""
        for each in self.declarations:
            if isinstance(name, Var) or each.name == name:
                if each.spec.kind in ("triples", "batch"):
                    message = "AT is of whole elements, but a window of triples holds parts of elements"
                    self.context.fault(message, at, "Count elements, or take a time: [RANGE 10s].")
                self._declarations[each.name] = replace(each, by_element=True)

    def block(self, stream: NamedNode | Var, window: s.WindowText, at: int) -> NamedNode:
        """Declare the window of a STREAM block and return the window's name."""
        name = self.declare(stream, window, at)
        self._used.add(name)
        return name

    def add_used(self, declarations: list[WindowDeclaration], at: int) -> None:
        """Add generated declarations of windows of a block (such as SEQ) and mark them as used."""
        for each in declarations:
            self._declarations[each.name], self.places[each.name] = each, at
        self._used.update(each.name for each in declarations)

    def declare(
        self,
        stream: NamedNode | Var,
        window: s.WindowText,
        at: int,
        *,
        name: NamedNode | None = None,
        share: bool = True,
    ) -> NamedNode:
        """Add a window's declaration and return the window's name.

        Equal unnamed windows on one stream share one declaration.
        """
        spec = self._spec(window)
        lateness = None
        if window.lateness is not None:
            lateness = self._or_zero(window.lateness, "LATENESS")
        bounds = self._bounds(window)
        self._words(window)
        if name is None:
            share = share and not spec.keys
            key = _Key(stream, spec, lateness, bounds) if share and isinstance(stream, NamedNode) else None
            if key is not None and key in self._shared:
                return self._shared[key]
            name = NamedNode(f"{WINDOW_NAMESPACE}{len(self._declarations) + 1}")
            if key is not None:
                self._shared[key] = name
        elif name in self._declarations:
            self.context.fault(f"the window <{name.value}> is declared twice", at)
        self._declarations[name] = WindowDeclaration(name, stream, spec, lateness, bounds=bounds)
        self.places[name] = at
        return name

    def warn_of_unused(self) -> None:
        """Add a warning for each window that no block reads; called at the end of the translation."""
        for name, declaration in self._declarations.items():
            if name not in self._used:
                named = declaration.stream
                stream = named.value if isinstance(named, NamedNode) else named.name
                label = next(
                    (f"?{v}" for v, window in self.context.window_variables.items() if window == name),
                    f"<{name.value}>",
                )
                self.context.warn(f"The window {label} on <{stream}> is declared but not used.")

    # --- specifications of windows

    def _spec(self, window: s.WindowText) -> WindowSpec:
        dialect = self.context.dialect
        if window.kind == "word":
            return self._word(window)
        form = _FORMS[window.kind]
        if dialect not in form.dialects:
            self.context.fault(
                f"{form.text} is not a window of {DIALECT_NAMES[dialect]}",
                window.at,
                _INSTEAD[dialect],
            )
        t0 = None if window.starting is None else self.instant(window.starting)
        match window.kind:
            case "now":
                return WindowSpec("now")
            case "all":
                return WindowSpec("all")
            case "triples" | "batch":
                return WindowSpec(window.kind, count=self._count(window.count, "the number of triples"))
            case "elements":
                step = 1 if window.count_step is None else self._count(window.count_step, "STEP")
                return WindowSpec(
                    "elements", count=self._count(window.count, "the number of elements"), step=step
                )
            case "session" | "latest":
                return self._keyed(window)
            case _:
                return self._range(window, t0)

    def _bounds(self, window: s.WindowText) -> tuple[Var, Var] | None:
        """Return the variables of BOUNDS, or None; a window without two ends in time is a fault."""
        if window.bounds is None:
            return None
        first, last = window.bounds
        if self.context.dialect == "csparql":
            message = "C-SPARQL has no block whose solutions BOUNDS could extend"
            self.context.fault(message, first.at, "Write the query in CQELS-QL or RSP-QL*.")
        elif window.kind not in ("range", "sliding", "past", "session"):
            form = f"[{window.word}]" if window.kind == "word" else _FORMS[window.kind].text
            message = f"BOUNDS is of a window with two ends in time, not of {form}"
            self.context.fault(message, first.at, "Write it with RANGE, TUMBLING or SESSION.")
        if first.name == last.name:
            self.context.fault("BOUNDS names two variables", last.at, "Write BOUNDS ?open ?close.")
        return Var(first.name), Var(last.name)

    def _keyed(self, window: s.WindowText) -> WindowSpec:
        """Return the specification of a session window or LATEST window.

        The function `find_patterns` later adds the pattern that binds the keys of such a window.
        """
        if window.keys and self.context.dialect == "csparql":
            message = "C-SPARQL has no block whose variables PARTITION BY could name"
            self.context.fault(message, window.at, "Write [SESSION 10s], or the query in CQELS-QL.")
        what = "WITHIN" if window.kind == "latest" else "the gap of a session"
        width = 0 if window.width is None else duration_ms(self.context, window.width, what)
        count = 0
        if window.kind == "latest":
            count = 1 if window.count is None else self._count(window.count, "the number of elements")
        keys = tuple(dict.fromkeys(Var(each.name) for each in window.keys))
        return WindowSpec(window.kind, width_ms=width, count=count, keys=keys)

    def find_patterns(self, root: Algebra) -> None:
        """Set the pattern of each window with BY or PARTITION BY, from the block that reads the window."""
        if any(each.spec.keys for each in self.declarations):
            found = with_patterns(self.declarations, root, self.context, self.places)
            self._declarations = {each.name: each for each in found}

    def _word(self, window: s.WindowText) -> WindowSpec:
        kind, word = _words[window.word]
        if self.context.dialect not in word.dialects:
            message = f"[{word.word}] is not a window of {DIALECT_NAMES[self.context.dialect]}"
            self.context.fault(message, window.at, _INSTEAD[self.context.dialect])
        if len(window.numbers) != len(word.numbers):
            wanted = " ".join((word.word, *(f"<{each}>" for each in word.numbers)))
            self.context.fault(f"[{word.word}] takes other numbers", window.at, f"Write [{wanted}].")
            return WindowSpec(kind)
        numbers = list(map(self._count, window.numbers, word.numbers))
        return WindowSpec(kind, count=numbers[0] if numbers else 0, step=numbers[1] if numbers[1:] else 1)

    def _range(self, window: s.WindowText, t0: int | None) -> WindowSpec:
        assert window.width is not None
        width = begin = duration_ms(self.context, window.width, "the window width")
        past = 0 if window.end is None else self._or_zero(window.end, "the end of the window")
        if window.end is not None:
            width -= past
            if width <= 0:
                self.context.fault(
                    "[RANGE a TO b] begins a ago and ends b ago: a must be greater than b",
                    window.at,
                    "Write the longer time first: [RANGE 10s TO 5s]",
                )
                return WindowSpec("range", width_ms=begin)
        if window.step is None and not window.tumbling and self.context.dialect == "cqels":
            if window.starting is not None:
                self.context.fault(
                    "STARTING AT needs a grid", window.at, "Add SLIDE: [RANGE 10s SLIDE 5s STARTING AT 0]"
                )
            return WindowSpec("past" if past else "range", width_ms=begin, past_ms=past)
        slide = width
        if window.step is not None:
            slide = duration_ms(self.context, window.step, "the window slide")
        if slide > width:
            self.context.warn(
                f"The window slides by {readable_duration(slide)} "
                f"but is only {readable_duration(width)} wide: elements between two windows are never seen."
            )
        return WindowSpec("grid", width_ms=begin, slide_ms=slide, past_ms=past, t0_ms=t0)

    def _count(self, number: s.Number | None, what: str) -> int:
        assert number is not None
        if not number.text.isdigit():
            self.context.fault(f"{what} must be a whole number, not {number.text}", number.at)
            return 1
        count = int(number.text[:12])
        if not 1 <= count <= _GREATEST_COUNT:
            self.context.fault(
                f"{what} must be from 1 to {_GREATEST_COUNT}, it is {number.text[:12]}", number.at
            )
            return 1
        return count

    def _or_zero(self, text: s.DurationText, what: str) -> int:
        if all(number.strip("0.") in ("", "ms", "s", "m", "h", "d", "ns") for number, _ in text.parts):
            return 0
        return duration_ms(self.context, text, what)

    def _words(self, window: s.WindowText) -> None:
        if window.report is not None:
            if self.report not in (None, window.report):
                self.context.fault(
                    f"the windows of a query report alike, here {self.report} and {window.report}", window.at
                )
            self.report = window.report
        if window.tick not in (None, "TIME_DRIVEN"):
            self.context.missing(
                f"TICK {window.tick}", window.at, "Windows tick with event time: TICK TIME_DRIVEN."
            )

    def instant(self, text: s.InstantText) -> int | None:
        """Return the instant of STARTING AT in milliseconds; None for a wrong instant, which adds a fault."""
        value = self.terms.string(text.value) if isinstance(text.value, s.StringToken) else None
        return instant_ms(self.context, text, value)
