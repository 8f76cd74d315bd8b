"""The exact changes of a SPARQL update, worked out before anything is applied.

Oxigraph tells no one what an update changed, so the changes are derived by its own evaluator: the WHERE part
runs as a SELECT of the variables that the templates use, the templates run in a scratch store with the
solutions handed in by number, and what comes out is folded into the pending changes. An operation that must
see earlier pending changes runs its WHERE inside an update that makes them, records the solutions through a
function and then fails on purpose, so that everything is rolled back and no reader ever saw it.
Source: SPARQL 1.1 Update section 3; docs/decisions/0010-exact-change-sets.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

from pyoxigraph import BlankNode, DefaultGraph, Literal, NamedNode, Quad, QuerySolutions, Store

from .apply import Functions, Term, change_text, numbers, term_function
from .changes import GraphName
from .errors import QuadrillError, QueryTextError, UnsupportedError, UpdateError
from .guard import AllowedHosts, Limits, check_length, check_services, inspect_text
from .pending import Pending, quads_in_graph
from .remote import Fetcher, fetch_rdf
from .sparql import evaluation_error
from .text_errors import text_error
from .tokens import excerpt_at, line_and_column, tokens
from .update_text import (
    AllTarget,
    Clear,
    Create,
    Data,
    DefaultTarget,
    Load,
    Modify,
    NamedTarget,
    OneGraph,
    Operation,
    Piece,
    Transfer,
    split_update,
)

Row: TypeAlias = tuple[Term | None, ...]

# Names that no request uses: a graph that never exists, and the variables and functions of our own.
_ABSENT = "urn:quadrill:absent"
_UNBOUND = NamedNode("urn:quadrill:unbound")
_RECORD = NamedNode("urn:quadrill:record")
_ABSOLUTE = re.compile(r"<[A-Za-z][A-Za-z0-9+.\-]*:[^\\]*>")
_BATCH = 20_000


@dataclass(frozen=True, slots=True)
class UpdateRequest:
    """One update with the parameters of the protocol.

    Attributes:
        text: SPARQL Update.
        base_iri: resolves relative IRIs where the text has no BASE.
        prefixes: declared before the text's own.
        using_graphs: ``using-graph-uri``; with ``using_named_graphs`` the dataset of every WHERE (None: not
            given).
        using_named_graphs: ``using-named-graph-uri``.
        custom_functions: extension functions for the WHERE parts.
    """

    text: str
    base_iri: str | None = None
    prefixes: Mapping[str, str] | None = None
    using_graphs: Sequence[NamedNode] | None = None
    using_named_graphs: Sequence[NamedNode] | None = None
    custom_functions: Functions | None = None


@dataclass(frozen=True, slots=True)
class UpdatePlan:
    """A checked update, ready to be derived: its operations and the height of its text."""

    request: UpdateRequest
    operations: tuple[Operation, ...]
    height: int
    limits: Limits = field(default_factory=Limits)


def plan_update(request: UpdateRequest, limits: Limits, hosts: AllowedHosts) -> UpdatePlan:
    """Check the whole text before any of it is evaluated. Needs no lock and no store.

    Raises:
        QueryTextError: it is not an update, or ``using-graph-uri`` meets USING or WITH.
        LimitError: it nests too deeply.
        NetworkRefusedError: SERVICE or LOAD names a host that is not allowed.
        UnsupportedError: SERVICE with a variable.
    """
    check_length(request.text, limits)
    found = list(tokens(request.text))
    facts = inspect_text(request.text, limits, found)
    operations = tuple(split_update(request.text, found))
    plan = UpdatePlan(request, operations, facts.height, limits)
    _check_blank_labels(request.text, operations)
    _check_dataset_parameters(request, operations)
    scratch = _Engine(request, Store())
    for operation in operations:
        if facts.services:  # the same prefix may mean another host in each operation
            own = inspect_text(request.text[operation.start : operation.end], limits)
            prologue = operation.prologue
            check_services(own, hosts, partial(scratch.iri_text, prologue))
        if isinstance(operation.action, Load) and not operation.action.silent:
            hosts.require(scratch.iri(operation.action.source, operation.prologue).value, "LOAD")
    return plan


def check_syntax(plan: UpdatePlan) -> None:
    """Let Oxigraph parse each operation: a slip in the last is found before the first is evaluated.

    Each operation stands alone behind its prologue: Oxigraph 0.5 accepts no prologue after a ``;``, which
    SPARQL allows. A DROP of a graph that does not exist goes before it, so nothing is evaluated.

    Raises:
        QueryTextError: with the position in the text as the user sent it.
    """
    if len(plan.operations) == 1 and isinstance(plan.operations[0].action, Data):
        return  # evaluated in a scratch store at once, which says the same
    engine = _Engine(plan.request, Store())
    for operation in plan.operations:
        engine.parse(operation)


def derive_update(plan: UpdatePlan, store: Store, pending: Pending, fetcher: Fetcher) -> None:
    """Fold the effective changes of the update into ``pending``, a layer over the committed ``store``.

    Deterministic up to fresh blank nodes, RAND, UUID and NOW, each of which is evaluated once.

    Raises:
        UpdateError: an operation failed (CREATE of a graph that exists, DROP of one that does not ...).
        QueryTextError: Oxigraph refuses the text.
    """
    engine = _Engine(plan.request, store)
    for operation in plan.operations:
        try:
            _Derivation(engine, operation, pending, fetcher).run()
        except SyntaxError as error:
            raise engine.syntax_error(operation, error) from error
        except (RuntimeError, OSError, ValueError) as error:
            failure = evaluation_error(error)
            if isinstance(failure, UnsupportedError):
                raise failure from error
            raise UpdateError(f"the update failed: {error}") from error


def _check_blank_labels(text: str, operations: Sequence[Operation]) -> None:
    # SPARQL 1.1 Query 19.6 with Update 4.1.1: a blank node label must not appear in two INSERT DATA
    # operations of a request. In templates it is scoped to its operation and may come again.
    seen: set[str] = set()
    for operation in operations:
        if not isinstance(operation.action, Data):
            continue
        shared = seen & operation.blanks
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
        seen |= operation.blanks


def _check_dataset_parameters(request: UpdateRequest, operations: Sequence[Operation]) -> None:
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


class _Engine:
    """Oxigraph with the parameters of one request: evaluates single operations and resolves IRIs."""

    def __init__(self, request: UpdateRequest, store: Store) -> None:
        self.request = request
        self.store = store
        prefixes = dict(request.prefixes) if request.prefixes else None
        self.options: dict[str, Any] = {"base_iri": request.base_iri, "prefixes": prefixes}

    def iri(self, token: str, prologue: str) -> NamedNode:
        """An IRI token, relative or prefixed, as the parser reads it."""
        if _ABSOLUTE.fullmatch(token):
            return NamedNode(token[1:-1])
        try:
            found = Store().query(f"{prologue} SELECT ({token} AS ?iri) {{}}", **self.options)
        except SyntaxError as error:
            raise QueryTextError(
                f"{token} is not a valid IRI here", hint="declare its prefix, or BASE for a relative IRI"
            ) from error
        assert isinstance(found, QuerySolutions)
        term = next(iter(found))[0]
        assert isinstance(term, NamedNode)
        return term

    def iri_text(self, prologue: str, token: str) -> str:
        """The same, as text."""
        return self.iri(token, prologue).value

    def parse(self, operation: Operation) -> None:
        """Parse an operation without evaluating it."""
        text = self.request.text
        stop = f"DROP GRAPH <{_ABSENT}> ; "
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

    def syntax_error(self, operation: Operation, error: SyntaxError, inserted: int = 0) -> QueryTextError:
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
            found = text_error(operation.prologue, message, base_iri=self.request.base_iri)
            return QueryTextError(f"in the prologue: {found.message}", excerpt=found.excerpt, hint=found.hint)
        if line == ahead + 1:
            column += start_column - 1 - inserted
        line = start_line + line - ahead - 1
        return text_error(
            text,
            f"error at {line}:{column}: {message[match.end() :]}",
            base_iri=self.request.base_iri,
            prefixes=self.request.prefixes or (),
        )


class _Derivation:
    """One operation, folded into the pending changes."""

    def __init__(self, engine: _Engine, operation: Operation, pending: Pending, fetcher: Fetcher) -> None:
        self._engine = engine
        self._prologue = operation.prologue
        self._action = operation.action
        self._pending = pending
        self._fetcher = fetcher

    def run(self) -> None:
        match self._action:
            case Data() as action:
                self._data(action)
            case Modify() as action:
                self._modify(action)
            case Load() as action:
                self._load(action)
            case Clear() as action:
                self._clear(action)
            case Create() as action:
                name = self._iri(action.graph)
                if not self._pending.has_graph(name):
                    self._pending.create(name)
                elif not action.silent:
                    raise UpdateError(
                        f"CREATE GRAPH: the graph {name} already exists", hint="write CREATE SILENT"
                    )
            case Transfer() as action:
                self._transfer(action)

    def _iri(self, token: str) -> NamedNode:
        return self._engine.iri(token, self._prologue)

    # --- data and templates -------------------------------------------------------------------

    def _data(self, action: Data) -> None:
        scratch = Store()
        text = action.quads.text
        if action.remove:
            # Judged as what it is, then read as data: blank nodes are not allowed in it.
            scratch.update(f"{self._prologue} DELETE DATA {text}", **self._engine.options)
        scratch.update(f"{self._prologue} INSERT DATA {text}", **self._engine.options)
        change = self._pending.remove if action.remove else self._pending.add
        for quad in scratch:
            change(quad)

    def _modify(self, action: Modify) -> None:
        needed: dict[str, None] = {}
        for template in (action.delete, action.insert):
            if template is not None:
                needed.update(dict.fromkeys(template.variables))
        variables = tuple(needed)
        rows = self._solutions(action, variables)
        if not rows:
            return
        with_graph = self._iri(action.with_graph) if action.with_graph else None
        # Both templates see the same solutions, and everything is deleted before anything is inserted.
        removals = list(self._instances(action.delete, with_graph, variables, rows))
        additions = list(self._instances(action.insert, with_graph, variables, rows))
        for quad in removals:
            self._pending.remove(quad)
        for quad in additions:
            self._pending.add(quad)

    def _instances(
        self,
        template: Piece | None,
        with_graph: NamedNode | None,
        variables: tuple[str, ...],
        rows: list[Row],
    ) -> Iterator[Quad]:
        """The quads that a template yields: Oxigraph fills it in, in scratch stores, with new blank nodes."""
        if template is None:
            return
        used = [name for name in variables if name in template.variables]
        if not used and not template.blanks and "[" not in template.text and "(" not in template.text:
            if "<<" not in template.text and "{|" not in template.text:
                rows = rows[:1]  # every solution yields the same ground quads
        index = _free_name("i", template.variables)
        binds = [f"BIND(<urn:quadrill:v:{at}>(?{index}) AS ?{name})" for at, name in enumerate(used)]
        head = f"WITH {with_graph} " if with_graph is not None else ""
        for start in range(0, len(rows), _BATCH):
            batch = rows[start : start + _BATCH]
            functions: Functions = {
                NamedNode(f"urn:quadrill:v:{at}"): term_function(batch, variables.index(name))
                for at, name in enumerate(used)
            }
            scratch = Store()
            scratch.update(
                f"{self._prologue} {head}INSERT {template.text} "
                f"WHERE {{ VALUES ?{index} {{ {numbers(len(batch))} }} {' '.join(binds)} }}",
                custom_functions=functions,
                **self._engine.options,
            )
            yield from scratch

    # --- the solutions of a WHERE part --------------------------------------------------------

    def _solutions(self, action: Modify, variables: tuple[str, ...]) -> list[Row]:
        layers = self._pending.layers()
        if layers:
            return self._recorded_solutions(action, variables)
        request = self._engine.request
        count = _free_name("n", (*variables, *action.where.variables))
        projection = " ".join(f"?{name}" for name in variables) or f"(1 AS ?{count})"
        dataset = "".join(f" FROM {iri}" for iri in action.using)
        dataset += "".join(f" FROM NAMED {iri}" for iri in action.using_named)
        options = dict(self._engine.options)
        if request.using_graphs is not None or request.using_named_graphs is not None:
            options["default_graph"] = list(request.using_graphs or ())
            options["named_graphs"] = list(request.using_named_graphs or ())
        elif action.with_graph and not dataset:
            options["default_graph"] = [self._iri(action.with_graph)]
        found = self._engine.store.query(
            f"{self._prologue} SELECT {projection}{dataset} WHERE {action.where.text}",
            custom_functions=request.custom_functions,
            **options,
        )
        assert isinstance(found, QuerySolutions)
        width = len(variables)
        return [tuple(solution)[:width] for solution in found]

    def _recorded_solutions(self, action: Modify, variables: tuple[str, ...]) -> list[Row]:
        """The solutions over the store with the pending changes made, by an update that is rolled back.

        Pending blank-node graphs that are empty are not seen by ``GRAPH ?g {}``: no text can create them.
        """
        request = self._engine.request
        rows: list[Row] = []

        def record(*terms: Term) -> Term:
            rows.append(tuple(None if term == _UNBOUND else term for term in terms[1:]))
            return Literal(True)

        steps: list[str] = []
        functions: Functions = {**(request.custom_functions or {}), _RECORD: record}
        for at, layer in enumerate(self._pending.layers()):
            # Everything by number: the text stands behind the request's prologue.
            text, layer_functions = change_text(layer, by_number=True, names=f"layer{at}")
            steps.append(text)
            functions.update(layer_functions)
        mark = _free_name("r", (*variables, *action.where.variables))
        arguments = "".join(f", COALESCE(?{name}, {_UNBOUND})" for name in variables)
        head = f"WITH {action.with_graph} " if action.with_graph else ""
        steps.append(
            f"{head}INSERT {{ {_RECORD} {_RECORD} ?{mark} }} {self._using(action)} "
            f"WHERE {{ {action.where.text} BIND({_RECORD}(1{arguments}) AS ?{mark}) }}"
        )
        steps.append(f"DROP GRAPH <{_ABSENT}>")
        try:
            self._engine.store.update(
                f"{self._prologue} " + " ;\n".join(steps), custom_functions=functions, **self._engine.options
            )
        except RuntimeError as error:
            if _ABSENT in str(error):
                return rows
            raise
        raise AssertionError("the graph that never exists was dropped")

    def _using(self, action: Modify) -> str:
        request = self._engine.request
        using: Iterable[str] = action.using
        using_named: Iterable[str] = action.using_named
        if request.using_graphs is not None or request.using_named_graphs is not None:
            using = [str(name) for name in request.using_graphs or ()]
            using_named = [str(name) for name in request.using_named_graphs or ()]
            if not using and not using_named:
                using = [f"<{_ABSENT}>"]  # both given and empty: an empty dataset
        return " ".join([*(f"USING {iri}" for iri in using), *(f"USING NAMED {iri}" for iri in using_named)])

    # --- whole graphs -------------------------------------------------------------------------

    def _load(self, action: Load) -> None:
        source = self._iri(action.source).value
        name: GraphName = self._iri(action.target) if action.target else DefaultGraph()
        try:
            quads = quads_in_graph(fetch_rdf(self._fetcher, source), name)
        except QuadrillError:
            if action.silent:
                return
            raise
        for quad in quads:
            self._pending.add(quad)

    def _clear(self, action: Clear) -> None:
        pending = self._pending
        match action.target:
            case OneGraph(iri):
                name = self._iri(iri)
                if not pending.has_graph(name):
                    if not action.silent:
                        verb = "DROP" if action.drop else "CLEAR"
                        raise UpdateError(
                            f"{verb} GRAPH: the graph {name} does not exist", hint=f"write {verb} SILENT"
                        )
                    return
                self._empty(name, action.drop)
            case DefaultTarget():
                pending.clear(DefaultGraph())
            case NamedTarget() | AllTarget():
                for listed in list(pending.graph_names()):
                    self._empty(listed, action.drop)
                if isinstance(action.target, AllTarget):
                    pending.clear(DefaultGraph())

    def _empty(self, name: NamedNode | BlankNode, drop: bool) -> None:
        if drop:
            self._pending.drop(name)
        else:
            self._pending.clear(name)

    def _transfer(self, action: Transfer) -> None:
        """ADD, COPY and MOVE as SPARQL 1.1 Update 3.2.3 to 3.2.5 defines them, and Oxigraph reads it.

        COPY and MOVE drop the target first; a missing source is an error for MOVE only, as it ends in a DROP.
        """
        source, target = self._graph(action.source), self._graph(action.target)
        if source == target:
            return
        pending = self._pending
        if action.verb == "MOVE" and not isinstance(source, DefaultGraph) and not pending.has_graph(source):
            if not action.silent:
                raise UpdateError(f"MOVE: the graph {source} does not exist", hint="write MOVE SILENT")
        quads = list(pending.quads_of(source))
        if action.verb != "ADD":
            self._discard(target)
        for quad in quads:
            pending.add(Quad(quad.subject, quad.predicate, quad.object, target))
        if action.verb == "MOVE":
            self._discard(source)

    def _graph(self, graph: OneGraph | DefaultTarget) -> NamedNode | DefaultGraph:
        return self._iri(graph.iri) if isinstance(graph, OneGraph) else DefaultGraph()

    def _discard(self, name: NamedNode | DefaultGraph) -> None:
        if isinstance(name, DefaultGraph):
            self._pending.clear(name)
        else:
            self._pending.drop(name)


def _free_name(wish: str, taken: Iterable[str]) -> str:
    names = set(taken)
    while wish in names:
        wish += "_"
    return wish
