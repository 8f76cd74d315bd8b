"""One registered query at work: timeline, evaluator and relation-to-stream, in the engine's thread."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast
from typing import Literal as OneOf

from pyoxigraph import NamedNode, Quad

from quadrill.store.changes.commit import Commit
from quadrill.store.errors import LimitError, QuadrillError

from ..algebra.rewrites import has_order
from ..element import Solution
from ..groups.membership import Membership
from ..inputs import StreamInput
from ..meters import Meter
from ..output.feed import EventKind, Feed
from ..output.r2s import difference, emit, emit_change
from ..output.results import in_fixed_order, one_line, quads_text, solutions, solutions_line
from ..output.view_registry import View
from ..rows import negate
from ..settings import EngineSettings
from ..static.changes import TableChange
from ..static.static_inputs import StaticInputs
from ..static.steps import StaticStep
from ..windows.encoded import HeldWindow, WindowKey
from ..windows.live import LiveContent
from ..windows.operator import Interval
from ..windows.reports import Evaluation, Skipped
from ..windows.sharing import WindowSharing
from ..windows.timeline import SLIDING, QueryTimeline
from .prepare import AnswerLike, ChangedAnswer, Evaluator, IncrementalEvaluator, PreparedQuery

State = OneOf["running", "paused", "failed"]
EmitElement = Callable[[int, list[Quad], bool], None]
_MOST_NAMES = 20
"""Of a template's members at most so many are named."""


@dataclass(frozen=True, slots=True)
class _KeptAnswer:
    """The answer of the last evaluation, kept over a restart."""

    vars: tuple[str, ...]
    rows: list[Solution]
    boolean: bool | None


class RunningQuery:
    """Feeds inputs to the timeline, evaluates where it says so and publishes what follows.

    Everything but the description is called in the engine's thread. ``emit_element`` is called with the
    quads of each evaluation of a query whose output is a stream, before anything later happens.
    """

    def __init__(
        self,
        name: str,
        prepared: PreparedQuery,
        evaluator: Evaluator,
        feed: Feed,
        settings: EngineSettings,
        *,
        created_ms: int,
        emit_element: EmitElement | None = None,
    ) -> None:
        self.name = name
        self.prepared = prepared
        self.evaluator = evaluator
        self.feed = feed
        self.created_ms = created_ms
        self.state: State = "running"
        self.error: str | None = None
        # The graph of the store that is kept equal to the answer.
        self.view: View | None = None
        self._settings = settings
        self._emit_element = emit_element
        # True while retained elements are evaluated once more.
        self.repeats = False
        # Its part in a template group, while others evaluate it.
        self.membership: Membership | None = None
        self._own_timeline = self.new_timeline()
        # The windows by the keys of the evaluator, once there are any.
        self._windows: list[tuple[WindowKey, LiveContent]] = []
        self._built = -1
        # The tables of the static parts; None where the evaluator reads the store by itself.
        statics: StaticInputs | None = getattr(evaluator, "statics", None)
        self.statics = statics if statics is not None and statics.shares else None
        takes_changes = hasattr(evaluator, "advance")
        self._incremental = cast(IncrementalEvaluator, evaluator) if takes_changes else None
        if self._incremental is not None:
            self._track(self._incremental)
        self._sharing: WindowSharing | None = None
        self._seen_version = evaluator.static_version
        # The commit after which the static parts have not been looked at yet, without tables.
        self._stale = False
        # The version before the first change of static rows that no evaluation has seen; None for none.
        self._unseen_from: int | None = None
        self._has_order = has_order(prepared.query.root)
        self._vars: tuple[str, ...] = tuple(v.name for v in prepared.query.columns)
        self._previous: Sequence[Solution] = ()
        self._previous_quads: Sequence[Quad] = ()
        self._boolean: bool | None = None
        self._last_answer_id: int | None = None
        # The last evaluation and the version that it reflected.
        self.last_step: Evaluation | None = None
        self.last_version = 0
        # Called before and after static parts are refreshed: the journal notes what was read.
        self.before_refresh: Callable[[str], None] = _nothing
        self.after_refresh: Callable[[str, int], None] = _nothing
        self.evaluations = 0
        self.rows_inserted = 0
        self.rows_deleted = 0
        self.answers = 0
        self.results = Meter()
        self.inputs = Meter()
        self.last_result: dict[str, Any] | None = None
        self.last_refresh: dict[str, Any] | None = None
        self.refreshes = 0

    @property
    def timeline(self) -> QueryTimeline:
        """Its time; that of the group while it is a member of one."""
        return self._own_timeline if self.membership is None else self.membership.group.timeline

    # --- inputs ---------------------------------------------------------------------------------

    def begin(self, now_ms: int) -> None:
        """Just attached: catch up with the store; a query without windows gives its initial answer."""
        self.refresh(now_ms, "registration")
        if not self.prepared.windows and self.state == "running":
            self._evaluate(Evaluation(now_ms, "tick"), now_ms)

    def share(self) -> None:
        """Its windows may join those of others from now on."""
        if self._incremental is not None:
            self._sharing = WindowSharing(self._incremental.pool, self.timeline, self.name)

    def stop_sharing(self) -> None:
        """It gets no more inputs."""
        if self._sharing is not None:
            self._sharing.leave()
            self._sharing = None

    def close(self) -> None:
        """The query was dropped: what its evaluator holds is let go of now, not when memory is tidied."""
        close: Callable[[], None] = getattr(self.evaluator, "close", _nothing)
        close()

    @property
    def sharing_group(self) -> list[str] | None:
        """The queries that share a window with this one, itself included; None when none does."""
        if self.membership is not None:
            return self.membership.group.names(_MOST_NAMES)
        names = [] if self._sharing is None else self._sharing.group()
        return names if len(names) > 1 else None

    def handle(self, event: StreamInput, now_ms: int) -> None:
        """Take one input of a stream."""
        before = self.timeline.taken
        for step in self.timeline.handle(event):
            if self.state == "paused":
                continue
            if isinstance(step, Skipped):
                self.tell_skipped(step)
            else:
                self._evaluate(step, now_ms)
                # One push may carry many times: the windows are looked at after each of them.
                self._check_memory(self.timeline.window_size)
        if self._sharing is not None:
            self._sharing.meet(event)
        self.inputs.add(now_ms, self.timeline.taken - before)
        self._check_memory(self.timeline.state_size)

    def _check_memory(self, size_of: Callable[[], int]) -> None:
        memory = self.prepared.registration.memory
        if memory is not None and (size := size_of()) > memory:
            raise LimitError(
                f"the windows of {self.name} hold {size} quads, its limit (memory) is {memory}; "
                "make a window smaller or the limit greater",
                limit=memory,
            )

    def commit(self, commit: Commit, now_ms: int) -> None:
        """The store has a new version, which may have changed static parts."""
        if self.statics is not None:
            self.take_steps(now_ms)
            return
        self._seen_version = max(self._seen_version, commit.version)
        if self.prepared.refresh != "trigger" or self.evaluator.static_version >= commit.version:
            return
        if not self._on_commit or self.state == "paused":
            self._stale = True
            return
        if self.refresh(now_ms, "trigger"):
            self._after_refresh(commit.at_ms, now_ms)

    def sources_changed(self, now_ms: int) -> None:
        """What the query reads from elsewhere was fetched anew and is different."""
        if self.prepared.refresh == "manual":
            return
        if not self._on_commit or self.state == "paused":
            self._stale = True
        elif self.refresh(now_ms, "timer"):
            self._after_refresh(now_ms, now_ms)

    def take_steps(self, now_ms: int) -> None:
        """Static parts that follow the store may have moved on: each version is a transaction of its own."""
        if self.statics is None or self.prepared.refresh != "trigger":
            return
        for step in self.statics.ready():
            self.take_step(step, now_ms)

    def take_step(self, step: StaticStep, now_ms: int) -> None:
        """Static parts move to a version."""
        if not self._take(step):
            return
        self.note_step(now_ms)
        if self._on_commit and self.state == "running":
            self._after_refresh(step.at_ms, now_ms)

    def note_step(self, now_ms: int) -> None:
        """The rows of static parts have changed with a commit."""
        self._refreshed(now_ms, "trigger", changed=True)

    def absorb_steps(self) -> None:
        """Take the steps that there are without an evaluation: the next one tells what follows."""
        if self.statics is not None and self.prepared.refresh == "trigger":
            for step in self.statics.ready():
                self._take(step)

    def looked_up(self) -> dict[int, str | None]:
        """For a restart: the places of static parts that are looked up, and why where nobody asked for it."""
        return {} if self.statics is None else dict(self.statics.looked_up)

    def _take(self, step: StaticStep) -> bool:
        changed: bool = cast(Any, self.evaluator).take(step.changes)
        if changed and self._unseen_from is None:
            self._unseen_from = step.before
        return changed

    def refresh_and_tell(self, now_ms: int, cause: str) -> bool:
        """Refresh now, by hand or timer, and emit what follows from it."""
        changed = self.refresh(now_ms, cause)
        if changed and self._on_commit and self.state == "running":
            self._after_refresh(now_ms, now_ms)
        return changed

    def refresh(self, now_ms: int, cause: str) -> bool:
        """Bring the static parts to the newest version; True when a row changed."""
        self._stale = False
        changed = False
        if self.statics is not None:
            changed = self._catch_up(self.statics)
            # The other parts are read from other servers, whose answers are inputs themselves.
            changed = (self.statics.has_own and self.evaluator.refresh()) or changed
        else:
            self.before_refresh(self.name)
            changed = self.evaluator.refresh()
            self.after_refresh(self.name, self.evaluator.static_version)
            self._seen_version = max(self._seen_version, self.evaluator.static_version)
        self._refreshed(now_ms, cause, changed=changed)
        return changed

    def _catch_up(self, statics: StaticInputs) -> bool:
        """All steps that there are, as one; the first time all rows."""
        if not statics.begun:
            statics.held = self.prepared.refresh != "trigger"
            changed: bool = cast(Any, self.evaluator).begin()
            return changed
        return any([self._take(step) for step in statics.ready()])

    def _refreshed(self, now_ms: int, cause: str, *, changed: bool) -> None:
        self.refreshes += 1
        self.last_refresh = {"at": now_ms, "cause": cause, "version": self.version, "changed": changed}
        if changed:
            for stream in self.variable_streams():
                self.timeline.add_stream(stream)

    @property
    def evaluated_version(self) -> int:
        """A version whose static rows are those of the last evaluation."""
        return self.version if self._unseen_from is None else self._unseen_from

    def resume(self, now_ms: int) -> None:
        """Running again: an on-content-change query tells what changed since its last event."""
        if self._on_commit and (self.timeline.instant is not None or not self.prepared.windows):
            at = self.timeline.instant
            self._evaluate(Evaluation(now_ms if at is None else at, "tick"), now_ms)

    def fail(self, error: Exception) -> None:
        """Stop alone: the state says why, the feed gets an error event."""
        self.state = "failed"
        message = error.message if isinstance(error, QuadrillError) else f"{type(error).__name__}: {error}"
        code = error.code if isinstance(error, QuadrillError) else "internal"
        self.error = message
        document = {"at": self.timeline.instant, "error": message, "code": code}
        self.feed.publish([("error", one_line(document))])

    def plan(self, *, analyze: bool = False) -> str | None:
        """The operators that keep the answer up to date, as text; None where it is recomputed."""
        if self.membership is not None:
            return self.membership.group.explain(analyze=analyze)
        show = getattr(self.evaluator, "explain", None)
        return None if show is None else str(show(analyze=analyze))

    def measured(self) -> dict[str, Any]:
        """Live figures of the operators; none where the answer is recomputed."""
        if self.membership is not None:
            return self.membership.group.measured()
        measured: Callable[[], dict[str, Any]] | None = getattr(self.evaluator, "measured", None)
        return {"operators": [], "steps": 0, "timed_steps": 0} if measured is None else measured()

    @property
    def code(self) -> str | None:
        """The generated function that keeps the answer up to date; None where it is recomputed."""
        if self.membership is not None:
            return self.membership.group.code
        return getattr(self.evaluator, "code", None)

    # --- evaluated with others ------------------------------------------------------------------

    @property
    def template(self) -> Hashable | None:
        """Equal for queries that can be evaluated together, differing in constants; None for others."""
        prepared, evaluator = self.prepared, self._incremental
        registration = prepared.registration
        if (
            evaluator is None
            or self.view is not None
            or registration.memory is not None
            or prepared.sources is not None
            or prepared.query.form not in ("select", "ask")
            or prepared.report.kind != "on-content-change"
            or prepared.refresh != "trigger"
        ):
            return None
        shape: Hashable | None = evaluator.template
        windows = [each.stream for each in prepared.windows]
        kinds = {each.spec.kind for each in prepared.windows}
        if shape is None or len(set(windows)) != 1 or not kinds <= SLIDING:
            return None
        kept = (prepared.output, prepared.non_empty, prepared.open_closed, registration.lateness)
        return (windows[0], shape, *kept)

    @property
    def can_join(self) -> bool:
        """True when nothing is in hand that a group would not know of."""
        return (
            self._sharing is not None
            and self.membership is None
            and self.state == "running"
            and not self._stale
            and self._unseen_from is None
            and self.last_step is not None
            and self.statics is not None
            and self.statics.is_settled
            and not self.statics.looked_up
            and self.timeline.shared_windows() is not None
        )

    def join(self, membership: Membership, answer: AnswerLike) -> None:
        """Others evaluate it from now on; ``answer`` is the present one, as they have it."""
        assert self._incremental is not None
        assert self.statics is not None
        self.stop_sharing()
        self._own_timeline.let_go()
        self.membership = membership
        self.statics.before_news = membership.settle
        self._incremental.sleep()
        self.answered_by(answer)

    def answered_by(self, answer: AnswerLike) -> None:
        """The answer is the same as it was, and known here from now on."""
        assert self.last_step is not None
        self.feed.publish([], self._current(self.last_step, answer))

    def settle(self, told: int | None = None) -> None:
        """Bring its figures to the newest evaluation of its group; the one numbered ``told`` is told next."""
        if self.membership is not None:
            self.membership.settle()
            self.membership.seen = self.membership.seen if told is None else told

    def settled(self, evaluations: int, step: Evaluation, version: int) -> None:
        """There were evaluations that gave it no rows, the last one at this step and version."""
        self.evaluations += evaluations
        self.last_step, self.last_version, self._last_answer_id = step, version, None

    def timeline_state(self) -> dict[str, Any]:
        """What its timeline has become, for a checkpoint."""
        return self.timeline.state() if self.membership is None else self.membership.timeline_state()

    def counts(self) -> tuple[int, int, int]:
        """Elements taken, late, and behind other streams, since it began."""
        timeline = self.timeline
        if self.membership is not None:
            return self.membership.counts()
        return timeline.taken, timeline.late, timeline.behind

    def end_membership(self) -> Membership | None:
        """The group evaluates it no longer."""
        membership, self.membership = self.membership, None
        if membership is not None and self.statics is not None:
            membership.end()
            self._own_timeline.restore(membership.timeline_state())
            self.statics.before_news = _nothing
        return membership

    def go_alone(
        self,
        windows: Sequence[tuple[WindowKey, HeldWindow]] | None = None,
        undone: StaticStep | None = None,
    ) -> None:
        """Evaluate it here again, from where its group is.

        Args:
            windows: what the windows held at the last evaluation; by default as they say themselves.
            undone: a step of its static parts that the last evaluation had not seen.
        """
        assert self._incremental is not None
        self.end_membership()
        assert self.last_step is not None
        self._built = -1
        self._incremental.wake()
        if undone is not None:
            back = {place: TableChange(negate(each.delta)) for place, each in undone.changes.items()}
            cast(Any, self.evaluator).take(back)
        answer = self._incremental.go_on(self.last_step.at, self._contents() if windows is None else windows)
        self.feed.publish([], self._current(self.last_step, answer))
        self.share()

    def stand(self, state: Mapping[str, Any]) -> None:
        """Its windows are where these are."""
        self.stop_sharing()
        self._own_timeline.let_go()
        self._own_timeline.restore(state)
        self._built = -1
        self.share()

    def new_timeline(self) -> QueryTimeline:
        """A timeline of the same windows, without inputs so far."""
        prepared = self.prepared
        return QueryTimeline(
            prepared.windows,
            prepared.report,
            t0_ms=prepared.t0_ms,
            open_closed=prepared.open_closed,
            non_empty=prepared.non_empty,
            max_empty_windows=self._settings.max_empty_windows,
            lateness_ms=prepared.registration.lateness,
            variable_streams=self._streams_of_variable,
        )

    # --- what others ask ------------------------------------------------------------------------

    @property
    def version(self) -> int:
        """The version of the dataset that the answer reflects: any seen will do without static parts."""
        if self.statics is not None:
            return self.statics.version
        return self.evaluator.static_version if self.evaluator.static_parts() else self._seen_version

    @property
    def engine(self) -> str:
        """The word for the evaluator at work: ``reference`` unless it says another one."""
        return str(getattr(self.evaluator, "engine", "reference"))

    @property
    def static_parts(self) -> list[Any]:
        """The static parts as they are now."""
        return list(self.evaluator.static_parts())

    def variable_streams(self) -> list[str]:
        """The streams that windows on variables read now."""
        found: list[str] = []
        for window in self.prepared.windows:
            if not isinstance(window.stream, NamedNode):
                found.extend(self._streams_of_variable(window.name.value) or ())
        return found

    def _streams_of_variable(self, window: str) -> list[str] | None:
        bound = self.evaluator.streams_of_variable(NamedNode(window))
        return None if bound is None else sorted(stream.value for stream in bound)

    @property
    def _on_commit(self) -> bool:
        """True when a commit is an instant of evaluation."""
        return not self.prepared.windows or self.prepared.report.kind == "on-content-change"

    # --- evaluation -----------------------------------------------------------------------------

    def _after_refresh(self, at_ms: int, now_ms: int) -> None:
        if not self.prepared.windows:
            self._evaluate(Evaluation(at_ms, "tick"), now_ms)
        elif self.timeline.instant is not None:
            # A commit happens at the query's current instant.
            self._evaluate(Evaluation(self.timeline.instant, "tick"), now_ms)

    def _evaluate(self, step: Evaluation, now_ms: int = 0) -> None:
        if self._stale:
            self.refresh(now_ms, "trigger")
        if self._incremental is not None:
            answer: AnswerLike = self._incremental.advance(step.at, self._contents())
        else:
            answer = self.evaluator.answer(step.at, self.timeline.contents())
        self.tell(step, answer, now_ms)

    def tell(self, step: Evaluation, answer: AnswerLike, now_ms: int) -> None:
        """Publish what follows from an answer."""
        self._take_view(step, answer)
        self._unseen_from = None
        self.last_step, self.last_version = step, self.version
        self.evaluations += 1
        if not step.revises:
            revised = None
        else:
            revised = self._last_answer_id
        match self.prepared.query.form:
            case "ask":
                events = self._ask(step, answer)
            case "construct":
                events = self._construct(step, answer, revised)
            case _:
                events = self._select(step, answer, revised)
        ids = self.feed.publish(events, self._current(step, answer))
        self._last_answer_id = ids[-1] if ids else (None if not step.revises else self._last_answer_id)
        if ids:
            self.results.add(now_ms, len(ids))
            self.last_result = {"id": ids[-1], "at": step.at, "version": self.version, "emitted": now_ms}

    def _take_view(self, step: Evaluation, answer: AnswerLike) -> None:
        if self.view is None:
            return
        if self._incremental is not None:
            changed = cast(ChangedAnswer, answer)
            self.view.take(changed.deleted, changed.inserted, step.at)
        else:
            self.view.replace(answer.rows, step.at)

    def _track(self, evaluator: IncrementalEvaluator) -> None:
        """Let the windows hold what the evaluator takes changes from."""
        self.timeline.track_changes(lambda window: evaluator.content_of(NamedNode(window)))

    def _contents(self) -> list[tuple[WindowKey, LiveContent]]:
        """The contents of the windows by the keys of the evaluator: no stream where the window names it."""
        operators = self.timeline.operators
        if self._built != self.timeline.rebuilds:
            self._built = self.timeline.rebuilds
            fixed = {w.name.value for w in self.prepared.windows if isinstance(w.stream, NamedNode)}
            self._windows = [
                ((NamedNode(name), None if name in fixed else NamedNode(stream)), operator.live)
                for (name, stream), operator in operators.items()
            ]
        return self._windows

    def _head(self, at: int, window: Interval | None = None, revised: int | None = None) -> dict[str, Any]:
        document: dict[str, Any] = {"at": at, "version": self.version}
        if window is not None:
            document["window"] = {"open": window.open, "close": window.close}
        if revised is not None:
            document["revises"] = revised
        if self.prepared.sources is not None:
            document["sources"] = self.prepared.sources.marks()
        return document

    def _select(
        self, step: Evaluation, answer: AnswerLike, revised: int | None
    ) -> list[tuple[EventKind, str]]:
        self._vars = answer.vars
        if self._incremental is not None:
            change = cast(ChangedAnswer, answer)
            if not change.inserted and not change.deleted and self.prepared.output != "rstream":
                return []
            emission = emit_change(self.prepared.output, change)
        else:
            emission = emit(self.prepared.output, self._previous, answer.rows)
            self._previous = answer.rows
        events: list[tuple[EventKind, str]] = []
        signs: tuple[tuple[EventKind, Sequence[Solution] | None], ...] = (
            ("delete", emission.delete), ("insert", emission.insert), ("answer", emission.answer),
        )  # fmt: skip
        for kind, rows in signs:
            if rows is None or (kind == "answer" and self._silent(step, bool(rows))):
                continue
            self._count(kind, len(rows))
            head = self._head(step.at, step.window, revised)
            events.append((kind, solutions_line(head, answer.vars, self._listed(rows))))
        return events

    def _ask(self, step: Evaluation, answer: AnswerLike) -> list[tuple[EventKind, str]]:
        if answer.boolean == self._boolean:
            return []
        self._boolean = answer.boolean
        self.answers += 1
        document = self._head(step.at, step.window) | {"head": {}, "boolean": answer.boolean}
        return [("answer", one_line(document))]

    def _construct(
        self, step: Evaluation, answer: AnswerLike, revised: int | None
    ) -> list[tuple[EventKind, str]]:
        signs = self._quads_of(step, answer)
        events: list[tuple[EventKind, str]] = []
        for kind, quads in signs:
            if (kind == "answer" and self._silent(step, bool(quads))) or (kind != "answer" and not quads):
                continue
            self._count(kind, len(quads))
            document = self._head(step.at, step.window, revised) | {"quads": quads_text(quads)}
            events.append((kind, one_line(document)))
        streamed = [quad for kind, quads in signs if kind != "delete" for quad in quads]
        if self.prepared.output == "dstream":
            streamed = [quad for _, quads in signs for quad in quads]
        if streamed and self._emit_element is not None and not step.skipped:
            self._emit_element(step.at, list(dict.fromkeys(streamed)), self.repeats)
        return events

    def _quads_of(self, step: Evaluation, answer: AnswerLike) -> list[tuple[EventKind, Sequence[Quad]]]:
        """The quads to emit by kind.

        ISTREAM and RSTREAM instantiate the rows emitted; where quads can be deleted the sets of quads are
        compared, so that one goes only when no solution yields it any more.
        """
        output, previous = self.prepared.output, self._previous
        if output == "istream" and self._incremental is not None:
            inserted = cast(ChangedAnswer, answer).inserted
            return [("insert", self.evaluator.construct(self._listed(inserted), step.at))]
        self._previous = answer.rows
        if output == "rstream":
            return [("answer", self.evaluator.construct(self._listed(answer.rows), step.at))]
        if output == "istream":
            new = difference(answer.rows, previous)
            return [("insert", self.evaluator.construct(self._listed(new), step.at))]
        before = self._previous_quads
        now = list(dict.fromkeys(self.evaluator.construct(self._listed(answer.rows), step.at)))
        self._previous_quads = now
        gone, come = difference(before, now), difference(now, before)
        return [("delete", gone)] if output == "dstream" else [("delete", gone), ("insert", come)]

    def _listed(self, rows: Sequence[Solution]) -> Sequence[Solution]:
        """The rows in the query's order, else in a fixed one: how they were found depends on the past."""
        return rows if self._has_order else in_fixed_order(rows)

    def _silent(self, step: Evaluation, has_rows: bool) -> bool:
        """True for an empty answer that is not to be told."""
        return not has_rows and (step.skipped or self.prepared.non_empty)

    def _count(self, kind: EventKind, rows: int) -> None:
        if kind == "delete":
            self.rows_deleted += rows
        elif kind == "insert":
            self.rows_inserted += rows
        else:
            self.answers += 1

    def continue_evaluation(self) -> None:
        """Go on after a restart from the last evaluation: the timeline was read from a checkpoint."""
        if self.statics is not None:
            self._catch_up(self.statics)
        if self._incremental is not None:
            self._track(self._incremental)
            self._built = -1
        step = self.last_step
        if step is None:
            return
        if self._incremental is not None:
            answer: AnswerLike = self._incremental.go_on(step.at, self._contents())
        else:
            answer = _KeptAnswer(self._vars, list(self._previous), self._boolean)
        if self.view is not None:
            self.view.replace(answer.rows, step.at)
        self.feed.answer_again(self._current(step, answer))

    def _current(self, step: Evaluation, answer: AnswerLike) -> Callable[[], str]:
        """The line of the current answer, made when somebody asks and then remembered."""
        told, version, membership = step, self.last_version, self.membership
        number = 0 if membership is None else membership.seen
        made: dict[tuple[Evaluation, int], str] = {}

        def line() -> str:
            newest = None if membership is None else membership.shown_after(number)
            step, reflects = newest or (told, version)
            if (step, reflects) not in made:
                made.clear()
                made[step, reflects] = self._line(step, reflects, answer)
            return made[step, reflects]

        return line

    def _line(self, step: Evaluation, version: int, answer: AnswerLike) -> str:
        """An answer as it stands at an evaluation."""
        head = self._head(step.at, step.window) | {"version": version}
        match self.prepared.query.form:
            case "ask":
                return one_line(head | {"head": {}, "boolean": answer.boolean})
            case "construct":
                quads = self.evaluator.construct(self._listed(answer.rows), step.at)
                return one_line(head | {"quads": quads_text(quads)})
            case _:
                return solutions_line(head, answer.vars, self._listed(answer.rows))

    def empty_answer(self) -> dict[str, Any]:
        """The current answer before the first evaluation."""
        head: dict[str, Any] = {"at": None, "version": self.version}
        match self.prepared.query.form:
            case "ask":
                return head | {"head": {}, "boolean": False}
            case "construct":
                return head | {"quads": ""}
            case _:
                return head | solutions(self._vars, [])

    def tell_skipped(self, step: Skipped) -> None:
        """A run of empty reports."""
        document = {"from": step.start, "to": step.end, "skipped": step.skipped}
        self.feed.publish([("progress", one_line(document))])


def _nothing(*_: object) -> None:
    """Nobody wants to know."""
