"""An update checked whole before any of it is evaluated: length, nesting, hosts, dataset, syntax."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from pyoxigraph import NamedNode, Store

from ..changes.apply import Functions
from ..errors import LimitError, QueryTextError
from ..hosts import NO_HOSTS, AllowedHosts
from ..terms import Solution
from .guard import TextLimits, check_length, check_services
from .iris import resolve_iri
from .scan import Inspection, inspect_text
from .text_errors import text_error
from .tokens import excerpt_at, line_and_column
from .update_text import Data, Load, Modify, UpdateOperation, split_update

ABSENT = "urn:quadrill:absent"
"""A graph that never exists: dropping it makes an update fail on purpose."""

_DISTINCT = re.compile(r"(\((?:\s|#[^\r\n]{0,200}+[\r\n])*+)(DISTINCT)", re.IGNORECASE)
"""DISTINCT in calls by IRI, which Oxigraph's grammar does not have: a text that is only parsed loses it."""


class BufferedRowsError(LimitError):
    """A WHERE part may need more memory than the update may take within this process; nothing is applied."""


class WherePart:
    """A WHERE part of which nothing is known: it is evaluated as it is. Above the store more is known."""

    def require_valid(self, text: str, start: int) -> None:
        """Raise QueryTextError, with its place in the text, for a part that Oxigraph should have refused."""

    def look_up(self, names: tuple[str, ...], store: Store) -> list[Solution] | None:
        """The values of variables for a part over the default graph, where that takes less than Oxigraph."""
        return None

    def require_in_process(self, pending: int) -> None:
        """Raise HeldBackError when it may hold back too much, with so many changes made before it."""

    def require_row_limit(self, rows: int) -> None:
        """Raise HeldBackError when it gives too many rows."""

    def corrected(
        self, select: str, base_iri: str | None, merged: bool, store: Store | None
    ) -> tuple[str, Functions] | None:
        """A SELECT with the part, without its prologue, as Oxigraph should read it, and what it calls.

        ``merged``: its default graph is merged from several graphs; ``store``: the one whose default graph
        it reads, where that is known. None: it is right as it stands.
        """
        return None


WhereParts: TypeAlias = Callable[[str, str], WherePart]
"""Reads a WHERE part: its prologue, and its text."""


def unknown_part(_prologue: str, _where: str) -> WherePart:
    """A part that nobody reads before Oxigraph does."""
    return _UNKNOWN_PART


_UNKNOWN_PART = WherePart()


class UpdateRequest(NamedTuple):
    """One update with the parameters of the protocol.

    Attributes:
        text: SPARQL Update.
        base_iri: resolves relative IRIs where the text has no BASE.
        prefixes: declared before the text's own.
        using_graphs: ``using-graph-uri``; with ``using_named_graphs`` the dataset of every WHERE (None: not
            given).
        using_named_graphs: ``using-named-graph-uri``.
        custom_functions: extension functions for the WHERE parts.
        custom_aggregates: extension aggregates for them, as in `query.QueryRequest`.
        check: called now and then between operations and between solutions; an error that it raises ends the
            update, and nothing of it is applied; and between tokens, before anything is evaluated.
        where_parts: reads its WHERE parts, each once.
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
        """Return True when the update is to end by an error; called in threads of fetches too."""
        try:
            self.check()
        except Exception:
            return True
        return False


class UpdatePlan(NamedTuple):
    """A checked update, ready to be derived.

    Attributes:
        request: the update.
        operations: what it does, one after the other.
        height: of its text.
        parts: its WHERE parts, by the places where they start.
        limits: of its text.
        hosts: that it may reach.
    """

    request: UpdateRequest
    operations: tuple[UpdateOperation, ...]
    height: int
    parts: Mapping[int, WherePart]
    limits: TextLimits = TextLimits()
    hosts: AllowedHosts = NO_HOSTS


def plan_update(request: UpdateRequest, limits: TextLimits, hosts: AllowedHosts) -> UpdatePlan:
    """Check the whole text before any of it is evaluated. Needs no lock and no store.

    Raises:
        QueryTextError: it is not an update, or ``using-graph-uri`` meets USING or WITH.
        LimitError: it nests too deeply.
        NetworkRefusedError: SERVICE or LOAD names a host that is not allowed.
        UnsupportedError: SERVICE with a variable.
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
        if facts.services:  # the same prefix may mean another host in each operation
            operation_facts = inspect_text(
                request.text[operation.start : operation.end], limits, request.check
            )
            check_services(operation_facts, hosts, partial(scratch.iri_text, operation.prologue))
        if isinstance(operation.action, Modify):
            where = operation.action.where
            part = parts[where.start] = request.where_parts(operation.prologue, where.text)
            part.require_valid(request.text, where.start)
        if isinstance(operation.action, Load) and not operation.action.silent:
            hosts.require(scratch.iri(operation.action.source, operation.prologue).value, "LOAD")
    return UpdatePlan(request, operations, facts.height, parts, limits, hosts)


def check_syntax(plan: UpdatePlan) -> None:
    """Let Oxigraph parse each operation: a slip in the last is found before the first is evaluated.

    Each operation stands alone behind its prologue: Oxigraph 0.5 accepts no prologue after a ``;``, which
    SPARQL allows. A DROP of a graph that does not exist goes before it, so nothing is evaluated.

    Raises:
        QueryTextError: with the position in the text as the user sent it.
    """
    if len(plan.operations) == 1 and isinstance(plan.operations[0].action, Data):
        return  # evaluated in a scratch store at once, which says the same
    parse_all(plan)


def parse_all(plan: UpdatePlan) -> None:
    """Let Oxigraph parse each operation; raises QueryTextError as `check_syntax` does."""
    engine = UpdateEngine(plan.request, Store())
    for operation in plan.operations:
        engine.parse(operation)


def _check_blank_labels(text: str, operations: Sequence[UpdateOperation]) -> None:
    # SPARQL 1.1 Query 19.6 with Update 4.1.1: a blank node label must not appear in two INSERT DATA
    # operations of a request. In templates it is scoped to its operation and may come again.
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
    # SPARQL 1.1 Protocol 2.2.3: the parameters may not meet USING, USING NAMED or WITH.
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
    """Oxigraph with the parameters of one request: evaluates single operations and resolves IRIs."""

    def __init__(self, request: UpdateRequest, store: Store) -> None:
        self.request = request
        self.store = store
        prefixes = dict(request.prefixes) if request.prefixes else None
        self.options: dict[str, Any] = {"base_iri": request.base_iri, "prefixes": prefixes}
        if request.custom_aggregates:
            self.options["custom_aggregate_functions"] = dict(request.custom_aggregates)

    def iri(self, token: str, prologue: str) -> NamedNode:
        """An IRI token, relative or prefixed, as the parser reads it."""
        return resolve_iri(token, prologue, **self.options)

    def iri_text(self, prologue: str, token: str) -> str:
        """The text of the IRI that a token stands for."""
        return self.iri(token, prologue).value

    def parse(self, operation: UpdateOperation) -> None:
        """Parse an operation without evaluating it."""
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
            return  # the DROP failed, as it must: the text parsed
        raise AssertionError("the graph that never exists was dropped")

    def syntax_error(
        self, operation: UpdateOperation, error: SyntaxError, inserted: int = 0
    ) -> QueryTextError:
        """Oxigraph's message about an operation, with its place in the whole text.

        Pieces that were rewritten have places of their own; for those the operation is parsed as it stands.
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
        if line <= ahead:  # inside the prologue, whose layout is not that of the text
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
