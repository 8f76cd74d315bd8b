"""Custom functions that Oxigraph calls when it evaluates a whole query.

Custom functions fix results that SPARQL leaves open, make RAND and similar functions repeatable in a replay,
and replace functions whose results in Oxigraph are wrong (docs/decisions/0031-fixed-choices.md).
"""

from __future__ import annotations

import hashlib
import re
import time
import uuid
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial

from pyoxigraph import BlankNode, Literal, NamedNode, Triple

from quadrill.store.terms import Term

from ..algebra.build import all_nodes, expressions, sub_expressions
from ..algebra.nodes import Aggregate, Call
from ..algebra.order import XSD, total_text, value_text
from ..algebra.query import ContinuousQuery
from ..algebra.scalar_functions import EXTENSION_FUNCTIONS
from ..algebra.set_functions import FUNCTIONS, NATIVE, CustomAccumulator, percentile_parameter
from ..algebra.static import VOLATILE_PREFIX
from ..algebra.volatile import EVENT_TIME, GREATEST, UNBOUND
from ..errors import BudgetError
from ..rows import UNLIMITED, Budget
from .correcting import CORRECTING_FUNCTIONS
from .functions import substr
from .numeric import divide, multiply, to_decimal, to_integer
from .string_growth import GROWING, call_within, take_text
from .values import Maybe, term_of, value_of

Function = Callable[..., Term | None]

_VALUE_ORDER = NamedNode("urn:quadrill:order:value")
_TOTAL_ORDER = NamedNode("urn:quadrill:order:total")
_NOW = NamedNode(VOLATILE_PREFIX + "NOW")
_COMPUTED: dict[str, tuple[NamedNode, Callable[..., Maybe]]] = {
    "*": (NamedNode("urn:quadrill:multiply"), multiply),
    "/": (NamedNode("urn:quadrill:divide"), divide),
    "SUBSTR": (NamedNode("urn:quadrill:substr"), substr),
    XSD + "integer": (NamedNode("urn:quadrill:integer"), to_integer),
    XSD + "decimal": (NamedNode("urn:quadrill:decimal"), to_decimal),
}
"""Functions that replace Oxigraph's own, by the name of the operator or built-in, or the cast's IRI."""
_GROWING = {name: NamedNode(f"urn:quadrill:{name.lower()}") for name in GROWING}
"""Replacements of functions that make long values; Oxigraph's own are faster but do not limit text length."""
_GROWING_WORDS = re.compile("|".join(GROWING), re.IGNORECASE)
MUCH = 64
"""Growth factor up to which values are not counted: result length divided by input length.

Above this factor, the length of values that expressions make is counted for the budget.
"""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def instant_literal(at_ms: int) -> Literal:
    """Convert an instant in milliseconds since 1970 to the xsd:dateTime that NOW() returns."""
    days, rest = divmod(at_ms, 86_400_000)
    # Python's dates end with the year 9999; the calendar repeats every 400 years, which have 146,097 days.
    cycles = 0 if -700_000 < days < 2_900_000 else days // 146_097
    moment = _EPOCH + timedelta(days=days - cycles * 146_097, milliseconds=rest)
    year = moment.year + 400 * cycles
    text = f"{'-' * (year < 0)}{abs(year):04}{moment:-%m-%dT%H:%M:%S}"
    millis = at_ms % 1000
    fraction = f".{millis:03d}".rstrip("0") if millis else ""
    return Literal(f"{text}{fraction}Z", datatype=NamedNode(XSD + "dateTime"))


class LimitedCalls:
    """Custom functions within a budget, which Oxigraph calls during evaluations.

    Oxigraph turns an exception of a custom function into an error of the expression, so a budget error is
    stored until `check` raises the error.
    """

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self._fault: BudgetError | None = None

    def begun(self) -> Callable[[], None]:
        """Start to count the text that a new evaluation makes, and return the evaluation's `check`."""
        self.budget.since = time.monotonic()
        return self.check

    def check(self) -> None:
        """Raise a stored budget error; called after each row and at the end of Oxigraph's evaluation.

        Raises:
            BudgetError: a custom function has exceeded the budget.
        """
        if self._fault is not None:
            fault, self._fault = self._fault, None
            raise fault

    def of(self, function: Callable[..., Maybe]) -> Callable[..., Term | None]:
        """Convert a function of a budget and of values into a function of terms."""
        return partial(self._call, function)

    def results(self, functions: Mapping[NamedNode, Function]) -> dict[NamedNode, Function]:
        """Return functions by IRI, in which calls of extension functions count for the budget."""
        return {
            iri: partial(self._call_outside, iri, function) if iri in EXTENSION_FUNCTIONS else function
            for iri, function in functions.items()
        }

    def take_text(self, size: int) -> bool:
        """Return True if GROUP_CONCAT may continue with a text of ``size`` characters."""
        if self._fault is None and 0 < self.budget.limits.text < size:
            try:
                take_text(self.budget, size, "GROUP_CONCAT")
            except BudgetError as error:
                self._fault = error
        return self._fault is None

    def _call_outside(self, iri: NamedNode, function: Function, *terms: Term) -> Term | None:
        if self._fault is not None:
            return None
        try:
            return call_within(self.budget, iri, function, *terms)
        except BudgetError as error:
            self._fault = error
            return None

    def _call(self, function: Callable[..., Maybe], *terms: Term) -> Term | None:
        if self._fault is not None:
            return None
        try:
            return _computed(partial(function, self.budget), *terms)
        except BudgetError as error:
            self._fault = error
            return None


class Functions:
    """The custom functions of one query; also the `algebra.text.FunctionNames` of the query's texts.

    The method `begin` sets the instant of an evaluation. The function NOW() returns the instant of the
    query's evaluation. RAND, UUID, STRUUID and BNODE derive from the query's name, the instant, the call's
    position in the query text, the row, and the number of equal rows before the row.

    The caller of an evaluation calls ``limited.check`` after each row, to raise errors of the budget.
    """

    def __init__(
        self,
        name: str,
        extensions: Mapping[NamedNode, Function],
        budget: Budget = UNLIMITED,
        growing: bool = True,
    ) -> None:
        """Create the custom functions of the query ``name``.

        If ``growing`` is False, the values of expressions cannot grow (`may_grow`).
        """
        self._name = name
        self.limited = LimitedCalls(budget)
        self._ours = frozenset(_GROWING if growing else ("REPLACE",))
        self._at = 0
        self._seen: Counter[tuple[Term, ...]] = Counter()
        self._times: Mapping[NamedNode, Mapping[Triple, int]] = {}
        self._aggregates: dict[Aggregate, NamedNode] = {}
        self.aggregates: dict[NamedNode, Callable[[], CustomAccumulator]] = {}
        self.functions: dict[NamedNode, Function] = {
            **self.limited.results(extensions),
            _VALUE_ORDER: lambda term: Literal(value_text(term)),
            _TOTAL_ORDER: lambda term: Literal(total_text(term)),
            _NOW: self._now,
            NamedNode(VOLATILE_PREFIX + "RAND"): self._rand,
            NamedNode(VOLATILE_PREFIX + "UUID"): lambda *row: NamedNode(f"urn:uuid:{self._uuid(row)}"),
            NamedNode(VOLATILE_PREFIX + "STRUUID"): lambda *row: Literal(str(self._uuid(row))),
            NamedNode(VOLATILE_PREFIX + "BNODE"): lambda *row: BlankNode("b" + self._digest(row)[:32]),
            NamedNode(VOLATILE_PREFIX + "BNODE:named"): self._named_blank_node,
            **{iri: partial(_computed, operator) for iri, operator in _COMPUTED.values()},
            **{iri: self.limited.of(GROWING[name][0]) for name, iri in _GROWING.items()},
            EVENT_TIME: self._event_time,
            GREATEST: greatest,
            **CORRECTING_FUNCTIONS,
        }

    def begin(self, at_ms: int, times: Mapping[NamedNode, Mapping[Triple, int]]) -> None:
        """Prepare the custom functions for one evaluation; ``times`` has event times by window and triple."""
        self._at = at_ms
        self._times = times
        self._seen.clear()

    # --- names of the custom functions ----------------------------------------------------------

    value_order = _VALUE_ORDER
    total_order = _TOTAL_ORDER

    def aggregate(self, aggregate: Aggregate) -> NamedNode | None:
        """Return the IRI of the custom aggregate for a set function and its options.

        Returns None for a set function that Oxigraph evaluates itself.
        """
        if aggregate.name in NATIVE:
            return None
        if aggregate not in self._aggregates:
            iri = NamedNode(f"urn:quadrill:set-function:{len(self._aggregates)}")
            self._aggregates[aggregate] = iri
            self.aggregates[iri] = self._factory(aggregate)
        return self._aggregates[aggregate]

    def skipped(self, aggregate: Aggregate) -> Term | None:
        """Return the term that replaces an error if the set function ignores errors, else None."""
        return UNBOUND if FUNCTIONS[aggregate.name].passes_over_errors else None

    def function(self, name: str) -> NamedNode | None:
        """Return the IRI of the custom function for a name, or None if Oxigraph's own function is used.

        NOW is a custom function, so that one query text serves all instants.
        """
        if name in self._ours:
            return _GROWING[name]
        return _NOW if name == "NOW" else _COMPUTED[name][0] if name in _COMPUTED else None

    def _factory(self, aggregate: Aggregate) -> Callable[[], CustomAccumulator]:
        return partial(
            CustomAccumulator,
            aggregate.name,
            distinct=aggregate.distinct,
            separator=aggregate.separator,
            parameter=percentile_parameter(aggregate),
            skip=self.skipped(aggregate),
            take_text=self.limited.take_text if aggregate.name == "GROUP_CONCAT" else None,
        )

    def _event_time(self, window: Term, *triples: Term) -> Term | None:
        """Return the greatest event time of the given triples in a window.

        Returns None if no given triple has an event time in the window.
        """
        times = self._times.get(window, {}) if isinstance(window, NamedNode) else {}
        found = [times[triple] for triple in triples if isinstance(triple, Triple) and triple in times]
        return Literal(str(max(found)), datatype=NamedNode(XSD + "integer")) if found else None

    # --- functions whose value depends on the row -----------------------------------------------

    def _now(self) -> Term:
        return instant_literal(self._at)

    def _digest(self, row: tuple[Term, ...]) -> str:
        self._seen[row] += 1
        return self._hash(row, self._seen[row])

    def _hash(self, row: tuple[Term, ...], count: int) -> str:
        text = "\x00".join([self._name, str(self._at), str(count), *map(str, row)])
        return hashlib.sha256(text.encode()).hexdigest()

    def _rand(self, *row: Term) -> Term:
        number = int(self._digest(row)[:13], 16) / 2**52
        return Literal(repr(number), datatype=NamedNode(XSD + "double"))

    def _uuid(self, row: tuple[Term, ...]) -> uuid.UUID:
        return uuid.UUID(self._digest(row)[:32], version=4)

    def _named_blank_node(self, *row: Term) -> Term | None:
        """BNODE(label): one blank node for each label and row (section 17.4.2.9)."""
        label = row[0]
        if not isinstance(label, Literal) or label.datatype.value != XSD + "string":
            return None
        return BlankNode("b" + self._hash(row, 0)[:32])


def _computed(operator: Callable[..., Maybe], *terms: Term) -> Term | None:
    """Apply a function of expression values to terms."""
    value = operator(*map(value_of, terms))
    return None if value is None else term_of(value)


def greatest(*times: Term) -> Term | None:
    """Return the greatest of several event times; None if none is known."""
    found = [int(term.value) for term in times if isinstance(term, Literal) and term != UNBOUND]
    return Literal(str(max(found)), datatype=NamedNode(XSD + "integer")) if found else None


def may_grow(query: ContinuousQuery) -> bool:
    """Return True if a query's expressions could make values more than `MUCH` times as long as their inputs.

    The estimate of growth multiplies the numbers of arguments of all calls, as if each call took the results
    of all others.
    """
    if not _GROWING_WORDS.search(query.text):
        return False
    factor = 1
    for expr in (expr for node in all_nodes(query.root) for expr in expressions(node)):
        for call in sub_expressions(expr):
            if isinstance(call, Call) and call.name in GROWING:
                factor *= max(len(call.args), 1)
            if factor > MUCH:
                return True
    return False
