"""Derivation of the exact changes of a SPARQL update, before any change is applied.

Oxigraph does not report what an update changed, so Oxigraph's evaluator derives the changes: the WHERE part
runs as a SELECT of the variables of the templates, the templates run in a scratch store on the numbered
solutions, and the resulting quads are added to the pending changes. An operation that must see earlier
pending changes runs its WHERE part inside an update of the store that first makes these changes. A custom
function records the solutions; then the update fails on purpose and is rolled back, so that no reader ever
sees the pending changes.
Source: SPARQL 1.1 Update section 3; docs/decisions/0010-exact-change-sets.md.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from pyoxigraph import BlankNode, DefaultGraph, Literal, NamedNode, Quad, QuerySolutions, Store

from ..changes.apply import Functions, change_text, numbers, term_function
from ..changes.commit import GraphName
from ..changes.owners import derived_graphs, refuse_targets
from ..changes.pending import PendingChanges, quads_in_graph
from ..documents.parsing import is_untagged
from ..documents.wall_clock import require_epoch
from ..errors import QueryTextError, ReportedError, UnsupportedError, UpdateError
from ..remote import FetchEndedError, Fetcher, ending, fetch_rdf, without_secrets
from ..terms import Solution, Term
from .query import evaluation_error
from .scan import inspect_text
from .services import ServiceCalls
from .update_dataset import dataset_of, unused_variable, using_text
from .update_plan import ABSENT, BufferedRowsError, UpdateEngine, UpdatePlan
from .update_targets import refuse_derived_targets
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
    Piece,
    Transfer,
    UpdateOperation,
)

log = logging.getLogger(__name__)

# Reserved IRIs, which no request uses: for an unbound variable and for the function that records solutions.
_UNBOUND = NamedNode("urn:quadrill:unbound")
_RECORD = NamedNode("urn:quadrill:record")
_BATCH = 20_000
_ROWS_BETWEEN_CHECKS = 256
_MAY_NAME_TAGGED_TYPE = re.compile(r"angString|syntax-ns#[A-Za-z]|\\").search
"""Finds the ways in which a text can name rdf:langString: in full, by a prefix, or with escapes."""


def derive_update(plan: UpdatePlan, store: Store, pending: PendingChanges, fetcher: Fetcher) -> None:
    """Add the effective changes of an update to ``pending``, which is based on the committed ``store``.

    The result is deterministic up to new blank nodes, RAND, UUID and NOW. Operations on many graphs leave out
    the derived graphs of ``pending.owned``.

    Raises:
        OwnedGraphError: an operation writes to a derived graph.
        UpdateError: an operation failed, for instance CREATE of an existing graph or DROP of a missing graph.
        QueryTextError: Oxigraph refuses the update text.
        UnsupportedError: the update text calls an unknown function.
        BufferedRowsError: a WHERE part may need more memory or time than this process allows.
        FetchError, NetworkRefusedError, LimitError, RdfSyntaxError: a LOAD or SERVICE call without SILENT
            failed.
    """
    engine = UpdateEngine(plan.request, store)
    refuse_derived_targets(pending.owned, plan.operations, engine.iri)
    for operation in plan.operations:
        plan.request.check()
        try:
            derivation = _Derivation(engine, plan, operation, pending, fetcher)
            derivation.run()
        except SyntaxError as error:
            raise engine.syntax_error(operation, error) from error
        except FetchEndedError:
            plan.request.check()  # this call raises the error that stopped the update
            raise
        except (RuntimeError, OSError, ValueError) as error:
            if derivation.calls is not None:
                plan.request.check()
                derivation.calls.require_success()
            failure = evaluation_error(error)
            if isinstance(failure, UnsupportedError):
                raise failure from error
            raise UpdateError(f"the update failed: {error}") from error
    plan.request.check()


class _Derivation:
    """The derivation of the changes of one update operation, which are added to the pending changes.

    Attributes:
        calls: the SERVICE calls of the operation's WHERE part; None without calls and before the evaluation.
    """

    def __init__(
        self,
        engine: UpdateEngine,
        plan: UpdatePlan,
        operation: UpdateOperation,
        pending: PendingChanges,
        fetcher: Fetcher,
    ) -> None:
        self.calls: ServiceCalls | None = None
        self._engine = engine
        self._plan = plan
        self._prologue = operation.prologue
        self._action = operation.action
        self._pending = pending
        self._fetcher = fetcher
        self._derived = derived_graphs(pending.owned)

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

    # --- INSERT DATA, DELETE DATA and templates -----------------------------------------------------

    def _data(self, action: Data) -> None:
        change = self._pending.remove if action.remove else self._pending.add
        if action.quads.fill is not None:
            filled = list(action.quads.fill(((),)))
            self._refuse_derived(filled)
            for quad in filled if action.remove else self._checked(filled):
                change(quad)
            return
        scratch = Store()
        text = action.quads.text
        if action.remove:
            # DELETE DATA allows no blank nodes: Oxigraph checks that here; INSERT DATA below only reads the
            # quads.
            scratch.update(f"{self._prologue} DELETE DATA {text}", **self._engine.options)
        scratch.update(f"{self._prologue} INSERT DATA {text}", **self._engine.options)
        self._refuse_derived(scratch)
        for quad in scratch if action.remove else self._checked(scratch):
            change(quad)

    def _refuse_derived(self, quads: Iterable[Quad]) -> None:
        """Raise OwnedGraphError if one of the quads is in a derived graph."""
        if self._derived:
            refuse_targets(self._derived, (quad.graph_name for quad in quads))

    def _checked(self, quads: Iterable[Quad]) -> Iterable[Quad]:
        """Return the quads to insert (by INSERT DATA or a template), after a check of their literals.

        Raises:
            QueryTextError: a literal with the datatype of language strings has no language tag.
        """
        if _MAY_NAME_TAGGED_TYPE(self._engine.request.text) is None:
            return quads
        listed = list(quads)
        fault = next((quad.object for quad in listed if is_untagged(quad.object)), None)
        if fault is not None:
            raise QueryTextError(
                f"the literal {fault} has no language tag, which its datatype requires",
                hint='Write "text"@en, or give the literal another datatype.',
            )
        return listed

    def _modify(self, action: Modify) -> None:
        variables = action.variables
        rows = self._solutions(action, variables)
        if self.calls is not None:
            self.calls.require_success()
        if not rows:
            return
        with_graph = self._iri(action.with_graph) if action.with_graph else None
        # Both the DELETE and the INSERT template get the same solutions, and everything is deleted before
        # anything is inserted.
        removals = list(self._instances(action.delete, with_graph, variables, rows))
        additions = list(self._checked(self._instances(action.insert, with_graph, variables, rows)))
        self._refuse_derived(additions)
        for quad in removals:
            if quad.graph_name not in self._derived:
                self._pending.remove(quad)
        for quad in additions:
            self._pending.add(quad)

    def _instances(
        self,
        template: Piece | None,
        with_graph: NamedNode | None,
        variables: tuple[str, ...],
        rows: list[Solution],
    ) -> Iterator[Quad]:
        """Yield the quads of a template for the solutions ``rows``; Oxigraph fills it in scratch stores."""
        if template is None:
            return
        batches = [rows[start : start + _BATCH] for start in range(0, len(rows), _BATCH)]
        if template.fill is not None:
            for batch in batches:
                self._engine.request.check()
                yield from template.fill(batch)
            return
        used = [name for name in variables if name in template.variables]
        if not used and not template.blanks and "[" not in template.text and "(" not in template.text:
            if "<<" not in template.text and "{|" not in template.text:
                batches = [rows[:1]]  # without variables, all solutions yield the same quads
        index = unused_variable("i", template.variables)
        binds = [f"BIND(<urn:quadrill:v:{at}>(?{index}) AS ?{name})" for at, name in enumerate(used)]
        head = f"WITH {with_graph} " if with_graph is not None else ""
        for batch in batches:
            self._engine.request.check()
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

    def _solutions(self, action: Modify, variables: tuple[str, ...]) -> list[Solution]:
        layers = self._pending.layers()
        request = self._engine.request
        elsewhere = request.using_graphs is not None or request.using_named_graphs is not None
        plain = not (elsewhere or action.with_graph or action.using or action.using_named)
        concerns = action.where.concerns if plain else None
        pending = bool(layers) and (concerns is None or any(map(concerns, layers)))
        part = self._plan.parts[action.where.start]
        if plain and not pending:
            looked_up = part.look_up(variables, self._engine.store)
            if looked_up is not None:
                return looked_up
        part.require_in_process(sum(len(layer.added) for layer in layers))
        if pending:
            return self._recorded_solutions(action, variables)
        options = dict(self._engine.options)
        graphs = self._using(action)
        if graphs is not None:
            options["default_graph"], options["named_graphs"] = graphs
        elif action.with_graph:
            options["default_graph"] = [self._iri(action.with_graph)]
        text, functions = self._select(
            action, variables, self._engine.store if plain else None, self._where(action)
        )
        require_epoch()
        result = self._engine.store.query(
            f"{self._prologue} {text}", custom_functions=functions or None, **options
        )
        assert isinstance(result, QuerySolutions)
        width = len(variables)
        rows: list[Solution] = []
        for solution in result:
            rows.append(tuple(solution)[:width])
            if not len(rows) % _ROWS_BETWEEN_CHECKS:
                request.check()
                part.require_row_limit(len(rows))
        return rows

    def _where(self, action: Modify) -> str:
        """Return the text of the WHERE part, with the relay's addresses as endpoints of SERVICE calls."""
        text, plan = action.where.text, self._plan
        calls = inspect_text(text, plan.limits).calls if "service" in text.lower() else ()
        if not calls:
            return text
        resolve = partial(self._engine.iri_text, self._prologue)
        self.calls = ServiceCalls(text, calls, resolve, plan.hosts, self._engine.request.is_stopped)
        return self.calls.text

    def _recorded_solutions(self, action: Modify, variables: tuple[str, ...]) -> list[Solution]:
        """Return the solutions of a WHERE part that sees the pending changes, from a rolled-back update.

        In a WHERE part that sees pending changes, ``GRAPH ?g {}`` misses pending empty graphs with blank node
        names, because no text can create such graphs.
        """
        request = self._engine.request
        rows: list[Solution] = []
        limit_errors: list[BufferedRowsError] = []
        part = self._plan.parts[action.where.start]

        def record(*terms: Term) -> Term:
            if limit_errors:
                return Literal(True)
            rows.append(tuple(None if term == _UNBOUND else term for term in terms[1:]))
            if not len(rows) % _ROWS_BETWEEN_CHECKS:
                try:
                    part.require_row_limit(len(rows))
                except BufferedRowsError as error:
                    # Oxigraph would treat an error raised by a custom function as an expression error, so the
                    # error is stored.
                    limit_errors.append(error)
                    rows.clear()
            return Literal(True)

        steps: list[str] = []
        functions: Functions = {**(request.custom_functions or {}), _RECORD: record}
        for at, layer in enumerate(self._pending.layers()):
            # The text that makes the pending changes refers to terms by number, so that the request's
            # prologue cannot alter their meaning.
            text, layer_functions = change_text(layer, by_number=True, names=f"layer{at}")
            steps.append(text)
            functions.update(layer_functions)
        where = self._where(action)
        text, corrected = self._select(action, variables, None, where)
        if not text.endswith(where):
            where = f"{{ {text} }}"
        functions.update(corrected)
        mark = unused_variable("r", (*variables, *action.where.variables))
        arguments = "".join(f", COALESCE(?{name}, {_UNBOUND})" for name in variables)
        head = f"WITH {action.with_graph} " if action.with_graph else ""
        steps.append(
            f"{head}INSERT {{ {_RECORD} {_RECORD} ?{mark} }} {using_text(self._using(action))} "
            f"WHERE {{ {where} BIND({_RECORD}(1{arguments}) AS ?{mark}) }}"
        )
        steps.append(f"DROP GRAPH <{ABSENT}>")
        try:
            self._engine.store.update(
                f"{self._prologue} " + " ;\n".join(steps), custom_functions=functions, **self._engine.options
            )
        except RuntimeError as error:
            if ABSENT in str(error):
                request.check()
                if limit_errors:
                    raise limit_errors[0] from None
                return rows
            raise
        raise AssertionError("the graph that never exists was dropped")

    def _select(
        self, action: Modify, variables: tuple[str, ...], store: Store | None, where: str
    ) -> tuple[str, dict[NamedNode, Any]]:
        """Return the WHERE part as a corrected SELECT without prologue, and the functions that it calls."""
        request = self._engine.request
        count = unused_variable("n", (*variables, *action.where.variables))
        projection = " ".join(f"?{name}" for name in variables) or f"(1 AS ?{count})"
        text = f"SELECT {projection} WHERE {where}"
        functions = dict(request.custom_functions or {})
        graphs = self._using(action)
        merged = graphs is not None and len(graphs[0]) > 1
        part = self._plan.parts[action.where.start]
        correction = part.corrected(f"{self._prologue} {text}", request.base_iri, merged, store)
        return (text, functions) if correction is None else (correction[0], {**functions, **correction[1]})

    def _using(self, action: Modify) -> tuple[list[NamedNode], list[NamedNode]] | None:
        return dataset_of(self._engine.request, action, self._iri)

    # --- whole graphs -------------------------------------------------------------------------

    def _load(self, action: Load) -> None:
        source = self._iri(action.source).value
        name: GraphName = self._iri(action.target) if action.target else DefaultGraph()
        try:
            fetcher = ending(self._fetcher, self._engine.request.is_stopped)
            quads = _triples_for(name, fetch_rdf(fetcher, source), source)
        except ReportedError as error:
            if not action.silent or isinstance(error, FetchEndedError):
                raise
            # SPARQL 1.1 Update 3.1.4: a request with LOAD SILENT succeeds; the log reports that nothing was
            # loaded.
            log.warning("LOAD SILENT of <%s> loaded nothing: %s", without_secrets(source), error.code)
            return
        self._refuse_derived(quads)
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
                    if listed not in self._derived:
                        self._empty(listed, action.drop)
                if isinstance(action.target, AllTarget):
                    pending.clear(DefaultGraph())

    def _empty(self, name: NamedNode | BlankNode, drop: bool) -> None:
        if drop:
            self._pending.drop(name)
        else:
            self._pending.clear(name)

    def _transfer(self, action: Transfer) -> None:
        """Execute ADD, COPY or MOVE (SPARQL 1.1 Update 3.2.3 to 3.2.5).

        A missing source graph of ADD, COPY or MOVE is an error, as in DROP: the specification leaves the
        choice, and COPY of a missing graph would empty the target. With SILENT, an ADD, COPY or MOVE with a
        missing source changes nothing.
        """
        source, target = self._graph(action.source), self._graph(action.target)
        if source == target:
            return
        pending = self._pending
        if not isinstance(source, DefaultGraph) and not pending.has_graph(source):
            if action.silent:
                return
            raise UpdateError(
                f"{action.verb}: the graph {source} does not exist", hint=f"write {action.verb} SILENT"
            )
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


def _triples_for(name: GraphName, quads: list[Quad], source: str) -> list[Quad]:
    """Return a loaded document's quads, with triples moved into the graph ``name``.

    Named graphs of the loaded document are allowed only if ``name`` is the default graph.

    Raises:
        UpdateError: the document has quads of another named graph than ``name``.
    """
    moved = quads_in_graph(quads, name)
    if not isinstance(name, DefaultGraph):
        other = next((quad.graph_name for quad in moved if quad.graph_name != name), None)
        if other is not None:
            raise UpdateError(
                f"LOAD INTO GRAPH {name}: <{without_secrets(source)}> has quads of the graph {other}",
                code="wrong-graph",
                hint="Write LOAD without INTO GRAPH to load a dataset into its own graphs.",
            )
    return moved
