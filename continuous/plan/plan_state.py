"""The state of a running plan: deltas of windows and tables go in, deltas of the plan's rows come out."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from operator import itemgetter

from pyoxigraph import NamedNode

from ..algebra.nodes import Algebra
from ..algebra.query import ContinuousQuery, WindowDeclaration
from ..algebra.rewrites import windows_read
from ..algebra.static import StaticPattern
from ..algebra.triggers import unkeyed
from ..algebra.volatile import GREATEST
from ..errors import BudgetError
from ..expressions.choices import greatest, instant_literal
from ..expressions.compile import ExpressionContext
from ..expressions.oxigraph import canonical
from ..operators.join import DeltaJoin
from ..operators.matching import Match
from ..operators.ordering import TopK
from ..rows import Budget, Delta, IdRow, PinnedIds, Solution, add, merge
from ..static.entailed_windows import EntailedWindows
from ..static.lookup import Lookup
from ..static.rule_graphs import RuleGraphs
from ..static.shared_rows import SharedArrangement
from ..static.static_evaluator import EvaluationOptions
from ..static.static_inputs import StaticInputs
from ..uncertainty import custom_functions
from ..windows.encoded import ElementCoder, EncodedContent, EngineTerms
from ..windows.reifiers import WindowReifiers
from ..windows.timed import TimedContent
from ..windows.window_delta import EncodedWindow, Predicates, WindowKey
from .builder import Compilation
from .compiled import CompiledPlan
from .physical import build_plan
from .plan import CLOCK_KEY, Plan, SourceKey, source_key

Encoded = Iterable[tuple[WindowKey, EncodedWindow]]
"""Window keys with encoded window contents, from which `PlanState.gather` reads the deltas."""


class PlanState:
    """The operators of one plan, the function generated from them, and the pending inputs of the next step.

    ``content_of`` returns a new empty content object for a window. ``keys`` maps each window to the input
    keys of its triples, its quads, their event times, and the names of its streams. ``entailed`` has the
    consequences of the windows' contents; None for a query without entailment.

    The constructor raises UnsupportedError for a construct that cannot be evaluated incrementally. The caller
    must hold the lock ``planning`` of the term dictionary, so that no sweep runs.
    """

    def __init__(
        self,
        rest: Algebra,
        query: ContinuousQuery,
        tables: Mapping[str, Sequence[str]],
        evaluation: EvaluationOptions,
        terms: EngineTerms,
        budget: Budget,
        *,
        ordered: bool = False,
        rules: RuleGraphs | None = None,
    ) -> None:
        """Build the plan of ``rest``, a query without its static parts; ``tables`` has the parts' columns.

        ``ordered`` says that the rows of the plan's answer have an order (ORDER BY). ``rules`` are the graphs
        of the rule set whose consequences the windows include.
        """
        self.terms = terms
        self.entailed = None if rules is None else EntailedWindows(rules, terms, budget, evaluation.base_iri)
        self._union = evaluation.window_default_graph == "union"
        functions = {**custom_functions(), GREATEST: greatest}
        context = ExpressionContext(terms.values, evaluation.base_iri, functions, budget)
        self.pins = PinnedIds(terms.dictionary)
        windows = windows_read(query)
        late = evaluation.uncertain_filters == "late"
        compilation = Compilation(
            terms.dictionary, self.pins, context, terms.keys, windows, tables, late_filters=late
        )
        self.plan: Plan = build_plan(rest, compilation, ordered=ordered)
        self.plan.limit(budget)
        self.compiled = CompiledPlan(self.plan, context)
        # Whether some expression reads the current instant, this instant, and the id of its term.
        self.asks_clock = CLOCK_KEY in self.plan.sources
        self._instant: int | None = None
        self._now = 0
        self.keys: dict[NamedNode, list[SourceKey]] = {}
        wanted: dict[NamedNode, Predicates] = {}
        asked = self.plan.wanted_predicates()
        for window in windows:
            keys = [source_key(kind, window.name) for kind in ("triples", "quads", "times", "streams")]
            self.keys[window.name] = keys
            found = [asked.get(key, frozenset()) for key in keys[:3]]
            wanted[window.name] = (
                None
                if None in found or rules is not None
                else frozenset().union(*[each or () for each in found])
            )
        self._streams_met: set[WindowKey] = set()
        self._asserts = partial(evaluation.asserts_quoted, windows=windows)
        self._pending: dict[SourceKey, Delta] = {}
        # The keys of those pending deltas that are private copies and may be changed.
        self._copied: set[SourceKey] = set()
        self._lookups: list[Lookup] = []
        top = self.plan.nodes[self.plan.root].operator
        self.top: TopK | None = top if isinstance(top, TopK) and not top.by else None
        contents: dict[NamedNode, Callable[[], EncodedContent]] = {}
        for each, keys in self.keys.items():
            kind = TimedContent if keys[2] in self.plan.sources else EncodedContent
            contents[each] = partial(kind, terms.coder, wanted[each], union=self._union)
        self.content_of: Callable[[NamedNode], EncodedContent] = lambda window: contents[window]()
        for predicates in wanted.values():
            terms.coder.want(predicates)
        # A finalizer releases the pinned term ids, even of a plan that was built only to validate a query.
        self.close = weakref.finalize(self, _release_terms, self.pins, terms.coder, list(wanted.values()))

    # --- static parts -----------------------------------------------------------------------------

    def take(self, table: str, change: Delta, *, afresh: bool = False) -> bool:
        """Add a table's delta to the next step; return False if the plan does not read the table.

        ``afresh`` says that all rows of a look-up (a static part read by key) were replaced, which makes
        earlier pending deltas obsolete.
        """
        key = source_key("table", table)
        if key not in self.plan.sources or not (change or afresh):
            return False
        if afresh:
            self._pending.pop(key, None)
            self._copied.discard(key)
        earlier = self._pending.get(key)
        if earlier is None:
            self._pending[key] = change
            return True
        if key not in self._copied:
            # A pending delta is copied at most once, because before the first step it has all rows of the
            # table.
            earlier = self._pending[key] = dict(earlier)
            self._copied.add(key)
        merge(earlier, change)
        return True

    def why_held(
        self, part: StaticPattern, windows: Sequence[WindowDeclaration], looked_up: Sequence[str]
    ) -> str | None:
        """Return why a static part cannot be looked up by key next to ``looked_up``; None if it can."""
        reason = unkeyed(part.pattern)
        if reason is None and any(each.stream in part.vars for each in windows):
            reason = "it binds the stream of a window"
        return self.plan.unkeyed(part.name, looked_up) if reason is None else reason

    def reads(self, table: str) -> bool:
        """Return True if the plan reads the table of this static part."""
        return source_key("table", table) in self.plan.sources

    def look_up(self, statics: StaticInputs) -> None:
        """Before the first step, let joins probe look-ups and shared tables instead of private rows."""
        shared: list[tuple[DeltaJoin | Match, int, SharedArrangement]] = []
        for place, part in enumerate(statics.parts):
            looked_up = place in statics.looked_up
            if not looked_up and (not statics.tables[place].follows or self.plan.unshared(part.name)):
                continue
            for join, _, number in self.plan.joins(part.name) or ():
                made = statics.arrangement(place)
                join.use_arrangement(number, made)
                if isinstance(made, SharedArrangement):
                    shared.append((join, number, made))
                else:
                    self._lookups.append(made)
        for join, number, view in shared:
            view.prepare(join.keys_of(number))
        self.compiled.outdate()

    # --- steps ------------------------------------------------------------------------------------

    def copy_of(self, content: EncodedWindow) -> EncodedContent:
        """Return a copy of a window's content as of the last `gather`, with all quads as pending delta."""
        held = EncodedContent(self.terms.coder, union=self._union)
        if isinstance(content, TimedContent):
            held = timed = TimedContent(self.terms.coder, union=self._union)
            timed.apply_times(content.times_before())
        held.apply(dict.fromkeys(content.before(), 1))
        return held

    def gather(self, at: int, contents: Encoded) -> dict[SourceKey, Delta]:
        """Return the deltas for a step at instant ``at`` (milliseconds), and reset the windows' deltas."""
        for lookup in self._lookups:
            lookup.check()
        given, self._pending = self._pending, {}
        self._copied.clear()
        if self.asks_clock and at != self._instant:
            self._move_clock(at, given)
        entailed = self.entailed
        if entailed is not None:
            entailed.begin()
        for key, content in contents:
            for_triples, for_quads, for_times, for_streams = self.keys[key[0]]
            if key[1] is not None and for_streams in self.plan.sources and key not in self._streams_met:
                self._streams_met.add(key)
                given.setdefault(for_streams, {})[(self.terms.dictionary.encode(key[1]),)] = 1
            renames = self.terms.coder.met_reifier
            triples, quads, _ = self._renaming.take(key, content) if renames else content.take()
            if entailed is not None:
                triples = entailed.extended(key, triples)
            if isinstance(content, TimedContent):
                given[for_times] = self._times_of(key, content)
            if key[1] is not None:
                # Rows of a window on a stream variable have the stream as their last column.
                last = self.terms.dictionary.ids[key[1]]
                triples = {(*row, last): weight for row, weight in triples.items()}
                quads = {(*row, last): weight for row, weight in quads.items()}
            for source, change in ((for_triples, triples), (for_quads, quads)):
                if change:
                    given[source] = {**given[source], **change} if source in given else change
        if entailed is not None:
            entailed.end()
        return given

    def plain_steps(self) -> int:
        """Return how many of the next steps the generated loop over instants may process."""
        if self._pending or self.terms.coder.met_reifier or not self.plan.primed:
            return 0
        for lookup in self._lookups:
            lookup.check()
            if lookup.renewals:
                return 0
        return self.compiled.special - self.plan.figures.steps - 1

    def step(self, given: Mapping[SourceKey, Delta]) -> Delta:
        """Run one step of the plan; return the delta of the plan's rows."""
        try:
            # The generated function processes deltas only; only the operators can process look-ups with
            # replaced rows.
            if self._lookups and any([each.renewals for each in self._lookups]):
                self.compiled.forget()
                return self.plan.step(given)
            return self.compiled.step(given)
        except BudgetError as error:
            self.add_location(error)
            raise

    def add_location(self, error: BudgetError) -> None:
        """Add to an error's message the operator at which the evaluation exceeded its limits."""
        if error.where is not None:
            error.message += f", in {self.plan.explain(error.where)}"

    def referenced_rows(self) -> Iterator[IdRow]:
        """Yield the rows whose term ids the next steps need, so that a sweep does not delete the ids.

        The plan may run while a sweep iterates. A step copies a term id only to rows that are yielded later,
        so the sweep misses no id (`quadrill.store.sweep`).
        """
        yield (self._now,)
        if self.entailed is not None:
            yield from self.entailed.referenced_rows()
        for _, stream in list(self._streams_met):
            yield (self.terms.dictionary.encode(stream),)
        yield from self._renaming.referenced_rows()
        for change in list(self._pending.values()):
            yield from list(change)
        yield from self.compiled.referenced_rows()
        yield from self.plan.referenced_rows()

    def _move_clock(self, at: int, given: dict[SourceKey, Delta]) -> None:
        """Replace the row with the current instant by the row with instant ``at``."""
        change: Delta = {(self._now,): -1} if self._now else {}
        self._instant, self._now = at, self.terms.dictionary.encode(canonical(instant_literal(at)))
        change[(self._now,)] = 1
        given[CLOCK_KEY] = change

    @cached_property
    def _renaming(self) -> WindowReifiers:
        """The deltas of windows with canonical names for reifiers; created at first use."""
        return WindowReifiers(self.terms.coder, union=self._union, asserts=self._asserts)

    def _times_of(self, key: WindowKey, content: TimedContent) -> Delta:
        """Return the delta of a window's triples with the event time as last column."""
        id_of = self.terms.values.id_of
        change: Delta = {}
        for row, (old, new) in self._renaming.take_times(key, content).items():
            if old is not None:
                change[(*row, id_of(old))] = -1
            if new is not None:
                change[(*row, id_of(new))] = 1
        return change

    # --- output of the plan -----------------------------------------------------------------------

    def decoder(self, names: Sequence[str]) -> Callable[[IdRow], Solution]:
        """Return a function that decodes columns of an id row to terms; None stands for an unbound column."""
        places, terms = self.plan.schema.columns(names), self.terms.dictionary.terms
        if len(places) > 1 and self.plan.schema.certain.issuperset(names):
            pick: Callable[[IdRow], IdRow] = itemgetter(*places)
            return lambda row: tuple(map(terms.__getitem__, pick(row)))
        return lambda row: tuple(
            [terms[row[place]] if place >= 0 and row[place] else None for place in places]
        )

    def coder_of(self, names: Sequence[str]) -> Callable[[Delta], Delta]:
        """Return a function that projects a delta to some columns; 0 stands for an unbound column."""
        places = self.plan.schema.columns(names)
        if places == [*range(len(self.plan.schema.vars))]:
            return lambda delta: delta

        def coded(delta: Delta) -> Delta:
            found: Delta = {}
            for row, weight in delta.items():
                add(found, tuple([row[place] if place >= 0 else 0 for place in places]), weight)
            return found

        return coded


def _release_terms(pins: PinnedIds, coder: ElementCoder, wanted: Sequence[Predicates]) -> None:
    pins.release()
    for each in wanted:
        coder.unwant(each)
