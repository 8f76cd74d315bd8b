"""Plans of updates: the whole text is checked before Quadrill evaluates the first operation."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from pyoxigraph import NamedNode, Store

from ..changes.apply import Functions
from ..changes.owners import NO_OWNERS, Owners
from ..errors import LimitError, NetworkRefusedError, QueryTextError
from ..hosts import NO_HOSTS, AllowedHosts
from ..terms import Solution
from .guard import TextLimits, check_length, check_services
from .iris import resolve_iri
from .scan import Inspection, inspect_text
from .text_errors import text_error
from .tokens import excerpt_at, line_and_column
from .update_targets import refuse_derived_targets
from .update_text import Data, Load, Modify, UpdateOperation, split_update

ABSENT = "urn:quadrill:absent"
"""The IRI of a graph that never exists; DROP GRAPH of the IRI makes an update fail on purpose."""

_DISTINCT = re.compile(r"(\((?>\s|#[^\r\n]{0,200}+[\r\n])*+)(DISTINCT)", re.IGNORECASE)
"""Matches DISTINCT in calls of aggregates by IRI, which Oxigraph's grammar lacks; removed before parsing."""


class BufferedRowsError(LimitError):
    """A WHERE part may need more memory or time than the server process allows; no change was applied."""


class WherePart:
    """A WHERE part evaluated without analysis; a subclass in the app package analyses the part."""

    def require_valid(self, text: str, start: int) -> None:
        """Raise QueryTextError for an invalid WHERE part that Oxigraph accepts; ``start`` is its offset."""

    def look_up(self, names: tuple[str, ...], store: Store) -> list[Solution] | None:
        """Return the solutions of a WHERE part that index look-ups can answer; None for any other part."""
        return None

    def require_in_process(self, pending: int) -> None:
        """Raise BufferedRowsError if this process must not run the part after ``pending`` added quads."""

    def require_row_limit(self, rows: int) -> None:
        """Raise BufferedRowsError if the WHERE part has more than the allowed number of rows."""

    def corrected(
        self, select: str, base_iri: str | None, merged: bool, store: Store | None
    ) -> tuple[str, Functions] | None:
        """Return the corrected text of a SELECT with this WHERE part, and the functions that the text calls.

        The argument ``merged`` is True if the default graph is merged from several graphs. The argument
        ``store`` is the store whose default graph the WHERE part reads, or None if unknown. Return None if
        the text of the WHERE part needs no correction.
        """
        return None


WhereParts: TypeAlias = Callable[[str, str], WherePart]
"""A function that makes a `WherePart` from the prologue and the text of a WHERE part."""


def unknown_part(_prologue: str, _where: str) -> WherePart:
    """Return a `WherePart` without analysis; used if no other maker is given."""
    return _UNKNOWN_PART


_UNKNOWN_PART = WherePart()


class UpdateRequest(NamedTuple):
    """A SPARQL update with the parameters of the SPARQL 1.1 Protocol.

    Attributes:
        text: the SPARQL Update text.
        base_iri: resolves relative IRIs if the text has no BASE.
        prefixes: prefix declarations that precede those of the text.
        using_graphs: the graphs of ``using-graph-uri``, with ``using_named_graphs`` the dataset of every
            WHERE part; None if the request has no such parameter.
        using_named_graphs: the graphs of ``using-named-graph-uri``; None if absent.
        custom_functions: extension functions for the WHERE parts.
        custom_aggregates: extension aggregates for the WHERE parts, as in `query.QueryRequest`.
        check: called between tokens, operations and solutions now and then; an error that it raises ends the
            update, and no change is applied.
        where_parts: makes the `WherePart` of each WHERE part, once.
    """

    text: str
    base_iri: str | None = None
    prefixes: Mapping[str, str] | None = None
    using_graphs: Sequence[NamedNode] | None = None
    using_named_graphs: Sequence[NamedNode] | None = None
    custom_functions: Functions | None = None
    check: Callable[[], None] = lambda: None
    where_parts: WhereParts = unknown_part
    custom_aggregates: Mapping[NamedNode, Callable[[], Any]] | None = None

    def is_stopped(self) -> bool:
        """Return True if ``check`` raises an error; also called in threads that fetch documents."""
        try:
            self.check()
        except Exception:
            return True
        return False


class UpdatePlan(NamedTuple):
    """A checked update, whose change can be derived.

    Attributes:
        request: the update.
        operations: the operations of the update, in order.
        height: height of the syntax tree of the text.
        parts: the WHERE parts by their offsets in the text.
        limits: limits on the text.
        hosts: hosts that the update may reach.
    """

    request: UpdateRequest
    operations: tuple[UpdateOperation, ...]
    height: int
    parts: Mapping[int, WherePart]
    limits: TextLimits = TextLimits()
    hosts: AllowedHosts = NO_HOSTS


def plan_update(
    request: UpdateRequest, limits: TextLimits, hosts: AllowedHosts, owned: Owners = NO_OWNERS
) -> UpdatePlan:
    """Check an update's text, hosts and dataset parameters; needs no lock and no store.

    Syntax errors are found by `check_syntax`. An update that may neither reach a host nor write to one of its
    target graphs gets the error about the graph; ``owned`` are the owners of graphs.

    Raises:
        QueryTextError: the text is no update, or has USING or WITH besides ``using-graph-uri``.
        LimitError: the text is too long, nests too deeply or has too many quads.
        NetworkRefusedError: SERVICE or LOAD names a host that is not allowed.
        OwnedGraphError: the update names such a host and writes to a derived graph.
        UnsupportedError: SERVICE has a variable.
    """
    check_length(request.text, limits)
    inspection = Inspection(request.text, limits, request.check)
    operations = tuple(split_update(request.text, inspection.tokens(), limits.quads))
    facts = inspection.facts()
    parts: dict[int, WherePart] = {}
    _check_blank_labels(request.text, operations)
    _check_dataset_parameters(request, operations)
    scratch = UpdateEngine(request, Store())
    for operation in operations:
        try:
            # Hosts are checked for each operation, because the same prefix may mean another host in each.
            if facts.services:
                operation_facts = inspect_text(
                    request.text[operation.start : operation.end], limits, request.check
                )
                check_services(operation_facts, hosts, partial(scratch.iri_text, operation.prologue))
            if isinstance(operation.action, Load) and not operation.action.silent:
                hosts.require(scratch.iri(operation.action.source, operation.prologue).value, "LOAD")
        except NetworkRefusedError:
            refuse_derived_targets(owned, operations, scratch.iri)
            raise
        if isinstance(operation.action, Modify):
            where = operation.action.where
            part = parts[where.start] = request.where_parts(operation.prologue, where.text)
            part.require_valid(request.text, where.start)
    return UpdatePlan(request, operations, facts.height, parts, limits, hosts)


def check_syntax(plan: UpdatePlan) -> None:
    """Let Oxigraph parse every operation of an update, to find all syntax errors before the evaluation.

    Each update operation is parsed separately after its prologue, because Oxigraph 0.5 accepts no prologue
    after a ``;``, which SPARQL allows. A DROP of a missing graph precedes the operation that is parsed, so
    that Oxigraph evaluates nothing.

    Raises:
        QueryTextError: an operation has a syntax error; the position refers to the text that the user sent.
    """
    if len(plan.operations) == 1 and isinstance(plan.operations[0].action, Data):
        return  # the evaluation in a scratch store finds the same syntax errors
    parse_all(plan)


def parse_all(plan: UpdatePlan) -> None:
    """Let Oxigraph parse every operation of an update; raise QueryTextError for the first syntax error."""
    engine = UpdateEngine(plan.request, Store())
    for operation in plan.operations:
        engine.parse(operation)


def _check_blank_labels(text: str, operations: Sequence[UpdateOperation]) -> None:
    # SPARQL 1.1 Query 19.6 with Update 4.1.1: a blank node label must not appear in two INSERT DATA
    # operations of a request. In templates, a blank node label is scoped to its operation and may come again.
    seen: set[str] = set()
    for operation in operations:
        if not isinstance(operation.action, Data):
            continue
        blanks = operation.action.quads.blanks
        shared = seen & blanks
        if shared:
            label = min(shared)
            offset = text.index(label, operation.start)
            line, column = line_and_column(text, offset)
            raise QueryTextError(
                f"the blank node {label} is used in two operations, at line {line}, column {column}",
                line=line,
                column=column,
                excerpt=excerpt_at(text, line, column),
                hint="blank node labels belong to one operation; use another label",
            )
        seen |= blanks


def _check_dataset_parameters(request: UpdateRequest, operations: Sequence[UpdateOperation]) -> None:
    # SPARQL 1.1 Protocol 2.2.3: an update with the parameters ``using-graph-uri`` or
    # ``using-named-graph-uri`` may not have USING, USING NAMED or WITH.
    if request.using_graphs is None and request.using_named_graphs is None:
        return
    for operation in operations:
        action = operation.action
        if isinstance(action, Modify) and (action.with_graph or action.using or action.using_named):
            raise QueryTextError(
                "using-graph-uri and using-named-graph-uri may not meet USING or WITH in the update",
                hint="remove the parameters, or USING and WITH from the text",
            )


class UpdateEngine:
    """Oxigraph with the parameters of one update: parses single operations and resolves IRIs."""

    def __init__(self, request: UpdateRequest, store: Store) -> None:
        self.request = request
        self.store = store
        prefixes = dict(request.prefixes) if request.prefixes else None
        self.options: dict[str, Any] = {"base_iri": request.base_iri, "prefixes": prefixes}
        if request.custom_aggregates:
            self.options["custom_aggregate_functions"] = dict(request.custom_aggregates)

    def iri(self, token: str, prologue: str) -> NamedNode:
        """Return the absolute IRI of a relative or prefixed token after ``prologue``."""
        return resolve_iri(token, prologue, **self.options)

    def iri_text(self, prologue: str, token: str) -> str:
        """Return the absolute IRI of a relative or prefixed token as a string."""
        return self.iri(token, prologue).value

    def parse(self, operation: UpdateOperation) -> None:
        """Parse an update operation without evaluating it; raise QueryTextError for a syntax error."""
        text = self.request.text
        if self.request.custom_aggregates and "distinct" in text.lower():
            text = _DISTINCT.sub(lambda match: match[1] + " " * len(match[2]), text)
        stop = f"DROP GRAPH <{ABSENT}> ; "
        try:
            Store().update(
                f"{operation.prologue}{stop}{text[operation.start : operation.end]}",
                custom_functions=self.request.custom_functions,
                **self.options,
            )
        except SyntaxError as error:
            raise self.syntax_error(operation, error, inserted=len(stop)) from error
        except RuntimeError:
            return  # the DROP failed as intended, so Oxigraph has parsed the operation after it
        raise AssertionError("the graph that never exists was dropped")

    def syntax_error(
        self, operation: UpdateOperation, error: SyntaxError, inserted: int = 0
    ) -> QueryTextError:
        """Return Oxigraph's syntax error of an operation, with its position in the whole text.

        The argument ``inserted`` is the number of characters that were put before the operation. With 0
        inserted characters the evaluated text was a rewritten one, whose positions are wrong: the original
        operation is parsed again.
        """
        message = str(error.msg or error)
        if not inserted:
            try:
                self.parse(operation)
            except QueryTextError as refusal:
                return refusal
            return QueryTextError(f"the update was refused: {message}")
        match = re.match(r"error at (\d+):(\d+): ", message)
        if match is None:
            return QueryTextError(message)
        text = self.request.text
        line, column = int(match.group(1)), int(match.group(2))
        ahead = operation.prologue.count("\n")
        start_line, start_column = line_and_column(text, operation.start)
        if line <= ahead:  # the error is in the prologue, whose lines are not those of the whole text
            prologue_error = text_error(operation.prologue, message, base_iri=self.request.base_iri)
            return QueryTextError(
                f"in the prologue: {prologue_error.message}",
                excerpt=prologue_error.excerpt,
                hint=prologue_error.hint,
            )
        if line == ahead + 1:
            column += start_column - 1 - inserted
        line = start_line + line - ahead - 1
        return text_error(
            text,
            f"error at {line}:{column}: {message[match.end() :]}",
            base_iri=self.request.base_iri,
            prefixes=self.request.prefixes or (),
        )
