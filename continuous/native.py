"""The native evaluator: the answer kept up to date by deltas.

It has the surface of `ReferenceEvaluator` and is exact in the same sense; what it cannot keep up to date
it refuses at construction, and the query is then recomputed. On top of that surface stands `step`, which
takes the changes of the windows and gives the change of the answer, at a cost that follows the change.
"""

from __future__ import annotations

import threading
import weakref
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyoxigraph import NamedNode, Quad

from quadrill.store.dictionary import Pins, TermDictionary
from quadrill.store.errors import UnsupportedError
from quadrill.store.sweep import Holder

from .algebra.clock import with_clock
from .algebra.nodes import Algebra, Var
from .algebra.query import ContinuousQuery
from .algebra.row_order import has_order
from .algebra.static import is_static, split_static
from .algebra.variables import certain
from .element import Row, WindowContent
from .expressions.compile import ExpressionContext
from .expressions.oxigraph import canonical
from .expressions.values import ValueTable
from .planner.compilation import Compilation, StaticTable
from .planner.compiled import CompiledPlan
from .planner.keyed import table_joins, unkeyed
from .planner.physical import build_plan
from .planner.plan import CLOCK_KEY, Plan, SourceKey, source_key
from .planner.wanted import wanted_predicates
from .r2r.ordering import OrderKeys
from .r2r.policies import Policy
from .r2r.reifiers import CanonicalReifiers
from .r2r.topk import TopK
from .reference.answer import Answer, EvaluationOptions, Left, StaticPart
from .reference.background import Background, projected
from .reference.functions import Functions, instant_literal
from .reference.parts import described, streams_of_variable
from .reference.prepare import prepare
from .reference.template import Template
from .rows import EMPTY, Delta, merge
from .rows import Row as IdRow
from .s2r.encoded import NOTHING, ElementCoder, EncodedContent, Predicates, Taken
from .s2r.shared import SharedContent
from .sharing import WindowPool
from .static.lookup import Lookup
from .static.rows import Changes as StaticChanges
from .static.rows import StaticRows
from .static.table import SharedTable
from .uncertainty import custom_functions

if TYPE_CHECKING:
    from quadrill.store.quads import QuadStore

    from .static.catalogue import StaticCatalogue

Contents = Mapping[NamedNode, WindowContent | Mapping[NamedNode, WindowContent]]
WindowKey = tuple[NamedNode, NamedNode | None]
Changes = Mapping[WindowKey, Mapping[Quad, int]]
"""For each window (and stream, where that is a variable) the quads that entered (+1) and left (-1)."""
Encoded = Iterable[tuple[WindowKey, EncodedContent | SharedContent]]
"""The windows as the native engine holds them; their changes are taken from there."""


class EngineTerms:
    """The dictionary and the caches over it that all native queries of an engine share."""

    def __init__(self) -> None:
        self.dictionary = TermDictionary()
        self.values = ValueTable(self.dictionary)
        self.keys = OrderKeys(self.dictionary)
        self.coder = ElementCoder(self.dictionary)
        self.dictionary.hold(self.coder.held)
        self.pool = WindowPool()
        # Held while a query is planned: its ids have no holder yet.
        self.planning = threading.Lock()

    def tidy(self) -> None:
        """A slice of forgetting terms that nothing holds, when it is due; called between transactions."""
        if self.planning.acquire(blocking=False):
            try:
                if not self.dictionary.sweeping:
                    # From here on ids must be asked for to be marked.
                    self.coder.renew()
                self.dictionary.sweep_slice()
            finally:
                self.planning.release()


class AnswerChange:
    """What one step did to the answer, and the answer after it.

    ``deleted`` and ``inserted`` hold each row as often as it came or went, in the answer's order. ``rows`` is
    the whole answer after this step, also when it is read after later ones and in another thread: it is then
    made from the newest answer and the changes since.
    """

    def __init__(
        self,
        evaluator: NativeEvaluator,
        deleted: list[Row],
        inserted: list[Row],
        boolean: bool | None,
        rows: list[Row] | None,
    ) -> None:
        self.vars = evaluator.vars
        self.deleted = deleted
        self.inserted = inserted
        self.boolean = boolean
        self.later: AnswerChange | None = None
        self._evaluator = evaluator
        self._rows = rows

    @property
    def rows(self) -> list[Row]:
        """The whole answer after this step."""
        if self._rows is None:
            self._rows = self._evaluator.rows_after(self)
        return self._rows


class NativeEvaluator:
    """Evaluates one continuous query incrementally; not thread-safe.

    Raises UnsupportedError at construction for a construct without a delta form, QueryTextError for a wrong
    query.
    """

    engine = "native"

    def __init__(
        self,
        query: ContinuousQuery,
        store: QuadStore,
        options: EvaluationOptions,
        terms: EngineTerms | None = None,
        *,
        statics: StaticCatalogue | None = None,
        order: Sequence[int] | Policy | None = None,
        compiled: bool = True,
        costly_late: bool = False,
    ) -> None:
        """With ``statics`` the static parts are shared tables that follow the store from `begin` on.

        ``order`` forces the order of look-ups in joins; without ``compiled`` the operators run one by one;
        with ``costly_late`` filters that call extension functions come behind the joins of their group. All
        three are for tests and measurements.
        """
        self._compile = compiled
        self._costly_late = costly_late
        if query.form == "describe":
            raise UnsupportedError("DESCRIBE")
        if not query.windows:
            raise UnsupportedError("a query without windows", "a query without windows has nothing to keep")
        self._query = query
        self._options = options
        self._union = options.window_default_graph == "union"
        self._terms = EngineTerms() if terms is None else terms
        self._functions = Functions(options.name, custom_functions())
        root = prepare(query)
        if is_static(root):
            raise UnsupportedError("a query without windows", "a query without windows has nothing to keep")
        self._columns = query.columns if query.form == "select" else projected(root)
        self.vars = () if query.form == "ask" else tuple(var.name for var in self._columns)
        self._ordered = query.form != "ask" and has_order(root)
        rest, parts = split_static(root, frozenset(var.name for var in self._columns))
        self.statics = StaticRows(
            options.name,
            parts,
            lambda: Background(query, store, options, Functions(options.name, custom_functions())),
            self._terms,
            statics,
        )
        self._parts = self.statics.parts
        self._template = Template(query.template, self._columns, options.name)
        with self._terms.planning:
            self._prepare_plan(with_clock(rest), order)
        # The finalizer has the static parts: what they keep for later must not keep the evaluator alive.
        unkeyed_later = weakref.WeakMethod(self._unkeyed)

        def unkeyed_now(place: int, others: Collection[int]) -> str | None:
            found = unkeyed_later()
            return "the query has ended" if found is None else found(place, others)

        self.statics.open(unkeyed_now, options.static_tables, options.looked_up)
        self._look_up()
        if self.statics.has_own or not self._parts:
            self.refresh()

    def _prepare_plan(self, rest: Algebra, order: Sequence[int] | Policy | None) -> None:
        self._plan = self._build(rest, order)
        # The instant and the id of its term, where an expression asks for them.
        self._asks_clock = any(node.source == CLOCK_KEY for node in self._plan.nodes)
        self._instant: int | None = None
        self._now = 0
        self._places = [
            self._plan.schema.vars.index(var.name) if var.name in self._plan.schema.vars else -1
            for var in self._columns
        ]
        self._inputs = {
            each.name: (source_key("triples", each.name), source_key("quads", each.name))
            for each in self._query.windows
        }
        asked = wanted_predicates(self._plan)
        self._wanted = {name: _both(asked, keys) for name, keys in self._inputs.items()}
        # The contents that `step` and `answer` are given as quads, and those with canonical reifiers.
        self._own: dict[WindowKey, EncodedContent] = {}
        self._reified: dict[WindowKey, tuple[CanonicalReifiers, EncodedContent]] = {}
        self._held: dict[WindowKey, dict[Quad, int]] = {}
        self._pending: dict[SourceKey, Delta] = {}
        self._answer: Delta = {}
        self._newest: AnswerChange | None = None
        self._unchanged: AnswerChange | None = None
        top = self._plan.nodes[self._plan.root].operator
        # Its revision tells that the order of the answer is another, though no row came or went.
        self._top = top if isinstance(top, TopK) else None
        self._shown_revision = -1
        # Held while the answer changes and while another thread reads it.
        self._reading = threading.Lock()
        release = self._terms.dictionary.hold(_weakly(self._held_rows))
        coder = self._terms.coder
        for wanted in self._wanted.values():
            coder.want(wanted)
        # Also an evaluator that was only made to check a query lets go of its terms.
        self.close = weakref.finalize(
            self, _let_go, release, self.statics, self._pins, coder, list(self._wanted.values())
        )

    def _unkeyed(self, place: int, others: Collection[int]) -> str | None:
        """Why a part cannot be looked up by keys beside others that are; None when it can."""
        part = self._parts[place]
        streams = {each.stream for each in self._query.windows}
        if any(var in streams for var in part.vars):
            return "it binds the stream of a window"
        return unkeyed(self._plan, part.name, [self._parts[each].name for each in others])

    def _look_up(self) -> None:
        """Joins look into the parts that are not held."""
        self._lookups: list[Lookup] = []
        for place in self.statics.looked_up:
            for join, number in table_joins(self._plan, self._parts[place].name) or ():
                self._lookups.append(self.statics.look_into(place))
                join.look_up(number, self._lookups[-1])
        if self._lookups:
            self._renew_code()

    def look_up(self, place: int, left: Left) -> bool:
        """A part that is held is looked up from the next step on; False when that cannot be just now."""
        joins = table_joins(self._plan, self._parts[place].name) or ()
        pending = self._pending.get(source_key("table", self._parts[place].name), EMPTY)
        lookups = self.statics.leave(place, pending, len(joins), left)
        if lookups is None:
            return False
        for (join, number), lookup in zip(joins, lookups, strict=True):
            join.look_up(number, lookup)
        self._lookups += lookups
        self._renew_code()
        return True

    def hold(self, place: int, table: SharedTable) -> bool:
        """A part that is looked up is held from the next step on, in a table with one user more.

        False when that cannot be just now; the table is then let go.
        """
        lookups = list(self.statics.lookups(place))
        pending = self._pending.get(source_key("table", self._parts[place].name), EMPTY)
        rows = self.statics.come_back(place, pending, table)
        if rows is None:
            return False
        for join, number in table_joins(self._plan, self._parts[place].name) or ():
            join.hold(number, rows)
        self._lookups = [each for each in self._lookups if each not in lookups]
        self._renew_code()
        return True

    def _renew_code(self) -> None:
        if self._code is not None:
            self._code.renew()

    # --- the surface of the reference ---------------------------------------------------------------

    def refresh(self) -> bool:
        """Evaluate the static parts that do not follow the store again; True when any row changed.

        All are read at the newest version. The change enters the answer with the next step.
        """
        return self.take(self.statics.refresh())

    def begin(self) -> bool:
        """The query begins in this turn, with all rows of the parts that follow the store."""
        return self.take(self.statics.begin())

    def take(self, changes: StaticChanges) -> bool:
        """Take changes of static parts into the next step; True when any row changed."""
        changed = False
        for place, change in changes.items():
            part = self._parts[place]
            if part.name not in self._plan.tables or not (change.delta or change.renewals):
                continue
            changed = True
            key = source_key("table", part.name)
            if change.renewals:
                for lookup in self.statics.lookups(place):
                    lookup.renewals += change.renewals
                self._pending.pop(key, None)
            earlier = self._pending.get(key)
            self._pending[key] = change.delta if earlier is None else merge(dict(earlier), change.delta)
        return changed

    @property
    def static_version(self) -> int:
        """The version of the store that the static parts reflect."""
        return self.statics.version

    def answer(self, at: int, contents: Contents) -> Answer:
        """The whole answer over whole contents: they are compared with those of the last step."""
        self.step(at, self._differences(contents))
        return self.whole()

    def construct(self, rows: Sequence[Row], at: int) -> list[Quad]:
        """The template over some rows of an answer at ``at``: distinct quads in the order of the rows."""
        return self._template.quads(rows, at)

    def static_parts(self) -> list[StaticPart]:
        """What each static part is and how many rows it has."""
        return described(self._query, self.statics)

    def streams_of_variable(self, window_name: NamedNode) -> frozenset[NamedNode] | None:
        """The streams to which static data bind a window's variable stream; None when they do not bind it."""
        return streams_of_variable(self._query, self._parts, self.statics.rows, window_name)

    # --- steps ------------------------------------------------------------------------------------

    @property
    def pool(self) -> WindowPool:
        """Where windows of this engine meet that have become the same."""
        return self._terms.pool

    def content_of(self, window: NamedNode) -> EncodedContent:
        """What a window of this query is to hold its content in, so that `advance` can take the changes."""
        content = EncodedContent(self._terms.coder, self._wanted[window], union=self._union)
        content.inputs = self._inputs[window]
        return content

    def step(self, at: int, changes: Changes) -> AnswerChange:
        """Take the changes of one transaction; the change of the answer at instant ``at`` (milliseconds)."""
        key_of = self._terms.coder.key
        for window, quads in changes.items():
            own = self._own.get(window)
            if own is None:
                own = self._own[window] = self.content_of(window[0])
            for quad, weight in quads.items():
                if weight > 0:
                    own.enter(key_of(quad))
                else:
                    own.leave(key_of(quad))
        return self.advance(at, self._own.items())

    def advance(self, at: int, contents: Encoded, *, told: bool = True) -> AnswerChange:
        """`step` with the changes of windows that hold keys of this engine's terms.

        Without ``told`` nobody asks which rows came and went, only for the whole answer.
        """
        for lookup in self._lookups:
            lookup.check()
        given, self._pending = self._pending, {}
        if self._asks_clock and at != self._instant:
            self._move_clock(at, given)
        reifiers = self._terms.coder.met_reifier
        for key, content in contents:
            taken = content.take()
            if taken is NOTHING:
                continue
            if reifiers:
                taken = self._renamed(key, taken, content)
            triples, quads, _ = taken
            if key[1] is not None:
                # The blocks of a variable stream have it as their last column.
                last = self._terms.dictionary.ids[key[1]]
                triples = {(*row, last): weight for row, weight in triples.items()}
                quads = {(*row, last): weight for row, weight in quads.items()}
            for_triples, for_quads = content.inputs
            if triples:
                given[for_triples] = {**given[for_triples], **triples} if for_triples in given else triples
            if quads:
                given[for_quads] = {**given[for_quads], **quads} if for_quads in given else quads
        # The generated function is told changes row by row; the operators know of what was replaced.
        step = self._plan.step if any(each.renewals for each in self._lookups) else self._step
        with self._reading:
            delta = step(given)
            if not delta and self._unchanged is not None and not self._reordered():
                change = self._unchanged
            else:
                change = self._changed(delta, told=told)
        if self._terms.dictionary.due:
            self._terms.tidy()
        return change

    def _reordered(self) -> bool:
        """True when the order of the answer may be another than that of the last one given."""
        return self._top is not None and self._top.revision != self._shown_revision

    def _move_clock(self, at: int, given: dict[SourceKey, Delta]) -> None:
        """The row of the clock becomes the instant ``at``."""
        change: Delta = {(self._now,): -1} if self._now else {}
        self._instant, self._now = at, self._terms.dictionary.encode(canonical(instant_literal(at)))
        change[(self._now,)] = 1
        given[CLOCK_KEY] = change

    def _changed(self, delta: Delta, *, told: bool) -> AnswerChange:
        """Apply a change to the answer."""
        deleted: list[Row] = []
        inserted: list[Row] = []
        merge(self._answer, delta)
        if delta and told:
            deleted = self._decoded({row: -weight for row, weight in delta.items() if weight < 0})
            inserted = self._decoded({row: weight for row, weight in delta.items() if weight > 0})
        ask = self._query.form == "ask"
        rows: list[Row] | None = None
        if ask:
            rows = []
        elif self._ordered:
            same = not delta and self._newest is not None and not self._reordered()
            rows = self._newest.rows if same and self._newest is not None else self.whole().rows
        change = AnswerChange(self, deleted, inserted, bool(self._answer) if ask else None, rows)
        if self._newest is not None:
            self._newest.later = change
        self._newest = change
        if self._top is not None:
            self._shown_revision = self._top.revision
        # What steps that change nothing give until the next that does.
        self._unchanged = change if not delta else None
        return change

    def go_on(self, at: int, contents: Encoded) -> AnswerChange:
        """The first step after a restart: over what the windows held at the last evaluation before it.

        What has changed in them since is left to the next step.
        """
        earlier = []
        for key, content in contents:
            held = EncodedContent(self._terms.coder, union=self._union)
            held.inputs = content.inputs
            held.begin(content.before())
            earlier.append((key, held))
        return self.advance(at, earlier, told=False)

    def rows_after(self, change: AnswerChange) -> list[Row]:
        """The whole answer after a step that may not be the last; called in any thread."""
        with self._reading:
            rows = self._decoded(self._answer)
            later = change.later
            if later is None:
                return rows
            counted = Counter(rows)
            while later is not None:
                counted.subtract(later.inserted)
                counted.update(later.deleted)
                later = later.later
            return list(counted.elements())

    def whole(self) -> Answer:
        """The whole answer after the last step."""
        if self._query.form == "ask":
            return Answer((), [], False, bool(self._answer))
        operator = self._plan.nodes[self._plan.root].operator
        if isinstance(operator, TopK):
            return Answer(self.vars, [self._terms_of(row) for row in operator.rows()], self._ordered)
        return Answer(self.vars, self._decoded(self._answer), self._ordered)

    def explain(self, *, analyze: bool = False) -> str:
        """The operators with the rows that they keep; with ``analyze`` also what they did."""
        return self._plan.explain(analyze=analyze)

    def measured(self) -> dict[str, Any]:
        """Live figures: ``operators`` as in `Plan.measured`, ``steps`` taken and ``timed_steps`` of them."""
        figures = self._plan.figures
        return {
            "operators": self._plan.measured(),
            "steps": figures.steps,
            "timed_steps": figures.timed_steps,
        }

    @property
    def code(self) -> str | None:
        """The generated function that runs the plan now, as text."""
        return None if self._code is None else self._code.source

    def state_size(self) -> int:
        """Rows kept by the operators."""
        return self._plan.size()

    # --- preparation ------------------------------------------------------------------------------

    def _build(self, rest: Algebra, order: Sequence[int] | Policy | None) -> Plan:
        tables = {
            part.name: StaticTable(
                part.name,
                tuple(var.name for var in part.vars),
                certain(part.pattern) & {var.name for var in part.vars},
            )
            for part in self._parts
        }
        context = ExpressionContext(self._terms.values, self._options.base_iri, custom_functions())
        self._pins = Pins(self._terms.dictionary)
        compilation = Compilation(
            self._terms.dictionary,
            self._pins,
            context,
            self._terms.keys,
            self._query.windows,
            tables,
            self._union,
            order,
            self._costly_late,
        )
        plan = build_plan(rest, compilation, ordered=self._ordered)
        self._code = CompiledPlan(plan, context) if self._compile else None
        self._step = plan.step if self._code is None else self._code.step
        return plan

    # --- one step ---------------------------------------------------------------------------------

    def _renamed(self, key: WindowKey, taken: Taken, content: EncodedContent | SharedContent) -> Taken:
        """The change with canonical reifiers, from the first reifier in the window on."""
        coder = self._terms.coder
        canonical, renamed = self._reified.get(key, (None, None))
        if canonical is None or renamed is None:
            if not any(each[1] == coder.reifies for each in taken.keys):
                return taken
            # What was there before had no reifiers and was given out as it is.
            earlier = content.before_change(taken)
            canonical = CanonicalReifiers(self._asserts_quoted(key), map(coder.quad, earlier))
            renamed = EncodedContent(coder, union=self._union)
            for each in earlier:
                renamed.enter(each)
            renamed.take()
            self._reified[key] = canonical, renamed
        quads = {coder.quad(each): weight for each, weight in taken.keys.items()}
        for quad, weight in canonical.change(quads).items():
            if weight > 0:
                renamed.enter(coder.key(quad))
            else:
                renamed.leave(coder.key(quad))
        if not len(canonical):
            del self._reified[key]
        return renamed.take()

    def _differences(self, contents: Contents) -> dict[WindowKey, dict[Quad, int]]:
        """The changes that lead from the contents of the last call to these."""
        given: dict[WindowKey, WindowContent] = {}
        for declaration in self._query.windows:
            content = contents.get(declaration.name, {})
            if isinstance(declaration.stream, Var):
                for stream, each in content.items():
                    given[(declaration.name, stream)] = each  # type: ignore[index,assignment]
            else:
                given[(declaration.name, None)] = content  # type: ignore[assignment]
        changes: dict[WindowKey, dict[Quad, int]] = {}
        for key in given.keys() | self._held.keys():
            new, old = given.get(key, {}), self._held.get(key, {})
            change = {quad: 1 for quad in new if quad not in old}
            change |= {quad: -1 for quad in old if quad not in new}
            changes[key] = change
            self._held[key] = dict.fromkeys(new, 1)
        return changes

    def _asserts_quoted(self, key: WindowKey) -> bool:
        setting = self._options.quoted_asserted
        if isinstance(setting, bool):
            return setting
        name, stream = key
        streams = [stream] + [each.stream for each in self._query.windows if each.name == name]
        return any(each in setting for each in streams)

    def _decoded(self, rows: Mapping[IdRow, int]) -> list[Row]:
        """Rows of terms in the columns of the answer, as often as their weight, in the answer's order."""
        ordered: Sequence[IdRow] = list(rows)
        operator = self._plan.nodes[self._plan.root].operator
        if self._ordered and isinstance(operator, TopK):
            ordered = operator.sorted(ordered)
        found: list[Row] = []
        for row in ordered:
            found += [self._terms_of(row)] * rows[row]
        return found

    def _terms_of(self, row: IdRow) -> Row:
        terms = self._terms.dictionary.terms
        return tuple([terms[row[place]] if place >= 0 and row[place] else None for place in self._places])

    def _held_rows(self) -> Iterator[IdRow]:
        """In the order in which rows are made from others (`quadrill.store.sweep`)."""
        yield from self.statics.waiting()
        yield (self._now,)
        for change in list(self._pending.values()):
            yield from list(change)
        yield from self._plan.held()
        yield from list(self._answer)


def _weakly(held: Callable[[], Iterator[IdRow]]) -> Holder:
    """The method of an object that this keeps alive only while it is walked."""
    method = weakref.WeakMethod(held)

    def rows() -> Iterator[IdRow]:
        found = method()
        return iter(()) if found is None else found()

    return rows


def _both(asked: Mapping[SourceKey, Predicates], keys: Iterable[SourceKey]) -> Predicates:
    """What the plan asks of a window, by its triples or by its named graphs."""
    found: frozenset[int] = frozenset()
    for key in keys:
        wanted = asked.get(key, frozenset())
        if wanted is None:
            return None
        found |= wanted
    return found


def _let_go(
    release: Callable[[], None],
    statics: StaticRows,
    pins: Pins,
    coder: ElementCoder,
    wanted: Sequence[Predicates],
) -> None:
    release()
    pins.release()
    for each in wanted:
        coder.unwant(each)
    statics.abandon()
