"""One registered query at work: timeline, evaluator and relation-to-stream, in the engine's thread."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any
from typing import Literal as OneOf

from pyoxigraph import NamedNode

from quadrill.store.changes.commit import Commit
from quadrill.store.errors import LimitError, QuadrillError

from ..algebra.rewrites import has_order
from ..element import Solution
from ..evaluate.answer import Answer
from ..evaluate.evaluator import Evaluator, Explained, IncrementalEvaluator
from ..groups.membership import Membership
from ..inputs import StreamInput
from ..meters import Meter
from ..output.emission import (
    AskEmission,
    ChangedAnswer,
    ConstructEmission,
    Emission,
    EmitElement,
    Moment,
    SelectEmission,
)
from ..output.feed import Feed
from ..output.results import one_line
from ..output.view_registry import View
from ..rows import negate
from ..settings import EngineSettings
from ..static.changes import TableChange
from ..static.static_inputs import StaticInputs
from ..static.steps import StaticStep
from ..windows.encoded import HeldWindow, WindowKey
from ..windows.kinds import kind_of
from ..windows.reports import Evaluation, Skipped
from ..windows.sharing import WindowSharing
from ..windows.timeline import QueryTimeline
from .prepare import PreparedQuery
from .static_state import RefreshNotes, StaticState

State = OneOf["running", "paused", "failed"]
_MOST_NAMES = 20
"""Of a template's members at most so many are named."""


class RunningQuery:
    """Feeds inputs to the timeline, evaluates where it says so and publishes what follows.

    Everything but the description is called in the engine's thread. ``emit_element`` is called with the
    quads of each evaluation of a query whose output is a stream, before anything later happens.

    Attributes:
        static: how far its static parts are.
        emission: what it tells of each evaluation.
        view: the graph of the store that is kept equal to the answer.
        repeats: True while retained elements are evaluated once more.
        membership: its part in a template group, while others evaluate it.
        last_step: the last evaluation; ``last_version`` is the version of the dataset that it reflected.
        last_answer_id: the id of the last event that it gave, None where it gave none.
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
        notes: RefreshNotes | None = None,
    ) -> None:
        self.name = name
        self.prepared = prepared
        self.evaluator = evaluator
        self.feed = feed
        self.created_ms = created_ms
        self.state: State = "running"
        self.error: str | None = None
        self.static = StaticState(name, evaluator, notes)
        self.emission = _emission_of(prepared, evaluator, emit_element)
        self.view: View | None = None
        self.repeats = False
        self.membership: Membership | None = None
        self.last_step: Evaluation | None = None
        self.last_version = 0
        self.evaluations = 0
        self.results = Meter()
        self.inputs = Meter()
        self.last_result: dict[str, Any] | None = None
        self.last_answer_id: int | None = None
        self._settings = settings
        self._sharing: WindowSharing | None = None
        self._own_timeline = self.new_timeline()

    @property
    def timeline(self) -> QueryTimeline:
        """Its time; that of the group while it is a member of one."""
        return self._own_timeline if self.membership is None else self.membership.group.timeline

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
            content_of=self.evaluator.content_of,
            variable_streams=self._streams_of_variable,
        )

    # --- inputs ---------------------------------------------------------------------------------

    def begin(self, now_ms: int) -> None:
        """Just attached: catch up with the store; a query without windows gives its initial answer."""
        self.refresh(now_ms, "registration")
        if not self.prepared.windows and self.state == "running":
            self._evaluate(Evaluation(now_ms, "tick"), now_ms)

    def handle(self, event: StreamInput, now_ms: int) -> None:
        """Take one input of a stream."""
        timeline = self._own_timeline
        memory = self.prepared.registration.memory
        before = timeline.taken
        for step in timeline.handle(event):
            if self.state == "paused":
                continue
            if isinstance(step, Skipped):
                self.tell_skipped(step)
                continue
            self._evaluate(step, now_ms)
            if memory is not None:
                # One push may carry many times: the windows are looked at after each of them.
                self._check_memory(memory, timeline.window_size())
        if self._sharing is not None:
            self._sharing.meet(event)
        self.inputs.add(now_ms, timeline.taken - before)
        if memory is not None:
            self._check_memory(memory, timeline.state_size())

    def _check_memory(self, memory: int, size: int) -> None:
        if size > memory:
            raise LimitError(
                f"the windows of {self.name} hold {size} quads, its limit (memory) is {memory}; "
                "make a window smaller or the limit greater",
                limit=memory,
            )

    def commit(self, commit: Commit, now_ms: int) -> None:
        """The store has a new version, which may have changed static parts."""
        if self.statics is not None:
            self.take_steps(now_ms)
        elif self.static.is_behind(commit) and self.prepared.refresh == "trigger":
            self._changed_outside("trigger", commit.at_ms, now_ms)

    def sources_changed(self, now_ms: int) -> None:
        """What the query reads from elsewhere was fetched anew and is different."""
        if self.prepared.refresh != "manual":
            self._changed_outside("timer", now_ms, now_ms)

    def _changed_outside(self, cause: str, at_ms: int, now_ms: int) -> None:
        """Read static parts again, now or with the next evaluation."""
        if not self._on_commit or self.state == "paused":
            self.static.stale = True
        elif self.refresh(now_ms, cause):
            self._after_refresh(at_ms, now_ms)

    def take_steps(self, now_ms: int) -> None:
        """Static parts that follow the store may have moved on: each version is a transaction of its own."""
        if self.prepared.refresh == "trigger":
            for step in self.static.steps():
                self.take_step(step, now_ms)

    def take_step(self, step: StaticStep, now_ms: int) -> None:
        """Static parts move to a version."""
        if not self.static.take(step):
            return
        self.note_step(now_ms)
        if self._on_commit and self.state == "running":
            self._after_refresh(step.at_ms, now_ms)

    def note_step(self, now_ms: int) -> None:
        """The rows of static parts have changed with a commit."""
        self.static.note(now_ms, "trigger", changed=True)
        self._read_bound_streams()

    def absorb_steps(self) -> None:
        """Take the steps that there are without an evaluation: the next one tells what follows."""
        if self.prepared.refresh == "trigger":
            for step in self.static.steps():
                self.static.take(step)

    def refresh_and_tell(self, now_ms: int, cause: str) -> bool:
        """Refresh now, by hand or timer, and emit what follows from it."""
        changed = self.refresh(now_ms, cause)
        if changed and self._on_commit and self.state == "running":
            self._after_refresh(now_ms, now_ms)
        return changed

    def refresh(self, now_ms: int, cause: str) -> bool:
        """Bring the static parts to the newest version; True when a row changed."""
        changed = self.static.refresh(now_ms, cause, held=self.prepared.refresh != "trigger")
        if changed:
            self._read_bound_streams()
        return changed

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

    # --- windows that others share --------------------------------------------------------------

    def share(self) -> None:
        """Its windows may join those of others from now on."""
        evaluator = self.evaluator.incremental
        if evaluator is not None:
            self._sharing = WindowSharing(evaluator.pool, self.timeline, self.name)

    def stop_sharing(self) -> None:
        """It gets no more inputs."""
        if self._sharing is not None:
            self._sharing.leave()
            self._sharing = None

    @property
    def sharing_group(self) -> list[str] | None:
        """The queries that share a window with this one, itself included; None when none does."""
        if self.membership is not None:
            return self.membership.group.names(_MOST_NAMES)
        names = [] if self._sharing is None else self._sharing.group()
        return names if len(names) > 1 else None

    # --- evaluated with others ------------------------------------------------------------------

    @property
    def template(self) -> Hashable | None:
        """Equal for queries that can be evaluated together, differing in constants; None for others."""
        prepared, evaluator = self.prepared, self.evaluator.incremental
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
        closes = any(kind_of(each.spec).closes for each in prepared.windows)
        if shape is None or len(set(windows)) != 1 or closes:
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
            and self.last_step is not None
            and self.static.settled
            and self.timeline.shared_windows() is not None
        )

    def join(self, membership: Membership, answer: ChangedAnswer) -> None:
        """Others evaluate it from now on; ``answer`` is the present one, as they have it."""
        evaluator = self._incremental
        assert self.statics is not None
        self.stop_sharing()
        self._own_timeline.let_go()
        self.membership = membership
        self.statics.before_news = membership.settle
        evaluator.sleep()
        self.answered_by(answer)

    def answered_by(self, answer: ChangedAnswer) -> None:
        """The answer is the same as it was, and known here from now on."""
        assert self.last_step is not None
        self.feed.publish([], CurrentAnswer(self, self.last_step, self.last_version, answer).line)

    def settle(self, told: int | None = None) -> None:
        """Bring its figures to the newest evaluation of its group; the one numbered ``told`` is told next."""
        if self.membership is not None:
            self.membership.settle()
            self.membership.seen = self.membership.seen if told is None else told

    def settled(self, evaluations: int, step: Evaluation, version: int) -> None:
        """There were evaluations that gave it no rows, the last one at this step and version."""
        self.evaluations += evaluations
        self.last_step, self.last_version, self.last_answer_id = step, version, None

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
        evaluator = self._incremental
        self.end_membership()
        assert self.last_step is not None
        evaluator.wake()
        if undone is not None:
            back = {place: TableChange(negate(each.delta)) for place, each in undone.changes.items()}
            evaluator.take(back)
        held = self._own_timeline.windows if windows is None else windows
        answer = evaluator.go_on(self.last_step.at, held, Answer(()))
        self.answered_by(answer)
        self.share()

    def stand(self, state: Mapping[str, Any]) -> None:
        """Its windows are where these are."""
        self.stop_sharing()
        self._own_timeline.let_go()
        self._own_timeline.restore(state)
        self.share()

    @property
    def _incremental(self) -> IncrementalEvaluator:
        """Its evaluator, of a query that may be evaluated with others."""
        evaluator = self.evaluator.incremental
        assert evaluator is not None
        return evaluator

    # --- what others ask ------------------------------------------------------------------------

    @property
    def statics(self) -> StaticInputs | None:
        """The static parts that follow the store; None where the evaluator reads it by itself."""
        return self.static.statics

    @property
    def explained(self) -> Explained | None:
        """The plan that keeps the answer up to date; None where the answer is recomputed."""
        return self.evaluator.incremental if self.membership is None else self.membership.group

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

    def _read_bound_streams(self) -> None:
        """Static data may bind a window's stream to others now."""
        for stream in self.variable_streams():
            self.timeline.add_stream(stream)

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
        if self.static.stale:
            self.refresh(now_ms, "trigger")
        self.tell(step, self.evaluator.advance(step.at, self._own_timeline.windows), now_ms)

    def tell(self, step: Evaluation, answer: ChangedAnswer, now_ms: int) -> None:
        """Publish what follows from an answer."""
        if self.view is not None:
            self.view.take(answer.deleted, answer.inserted, step.at)
        version = self.static.version
        self.static.unseen_from = None
        self.last_step, self.last_version = step, version
        self.evaluations += 1
        revised = self.last_answer_id if step.revises else None
        moment = Moment(step.at, version, step.window, revised, self._marks(), step.skipped, self.repeats)
        events = self.emission.events(moment, answer)
        ids = self.feed.publish(events, CurrentAnswer(self, step, version, answer).line)
        if ids:
            self.last_answer_id = ids[-1]
            self.results.add(now_ms, len(ids))
            self.last_result = {"id": ids[-1], "at": step.at, "version": version, "emitted": now_ms}
        elif not step.revises:
            self.last_answer_id = None

    def _marks(self) -> Any:
        """What the answer reflects of other servers; None when it reads nothing there."""
        sources = self.prepared.sources
        return None if sources is None else sources.marks()

    def line(self, step: Evaluation, version: int, answer: ChangedAnswer) -> str:
        """An answer as it stands at an evaluation, as the current one."""
        return self.emission.current(Moment(step.at, version, step.window, None, self._marks()), answer)

    def empty_answer(self) -> dict[str, Any]:
        """The current answer before the first evaluation."""
        return {"at": None, "version": self.static.version, **self.emission.before_first()}

    def tell_skipped(self, step: Skipped) -> None:
        """A run of empty reports."""
        document = {"from": step.start, "to": step.end, "skipped": step.skipped}
        self.feed.publish([("progress", one_line(document))])

    def go_on(self, kept: Sequence[Solution], boolean: bool | None) -> None:
        """Go on after a restart from the last evaluation: everything else was read from a checkpoint.

        Args:
            kept: what the evaluator `kept` then.
            boolean: the answer of ASK.
        """
        self.static.catch_up(held=self.prepared.refresh != "trigger")
        self._own_timeline.renew_contents()
        step = self.last_step
        if step is None:
            return
        last = Answer(self.evaluator.vars, list(kept), boolean=boolean)
        answer = self.evaluator.go_on(step.at, self._own_timeline.windows, last)
        if self.view is not None:
            self.view.replace(answer.rows, step.at)
        self.feed.answer_again(CurrentAnswer(self, step, self.last_version, answer).line)


class CurrentAnswer:
    """The current answer of a query after one evaluation; its line is made when somebody asks, and kept."""

    def __init__(self, running: RunningQuery, step: Evaluation, version: int, answer: ChangedAnswer) -> None:
        self._running = running
        self._told = step, version
        self._answer = answer
        self._membership = running.membership
        self._number = 0 if self._membership is None else self._membership.seen
        self._made: tuple[tuple[Evaluation, int], str] | None = None

    def line(self) -> str:
        """The answer, at the newest evaluation that left it as it is. Called in any thread."""
        told = self._told
        if self._membership is not None:
            # Evaluations of a group that gave this member no rows were not told here.
            told = self._membership.shown_after(self._number) or told
        made = self._made
        if made is None or made[0] != told:
            made = self._made = told, self._running.line(*told, self._answer)
        return made[1]


def _emission_of(prepared: PreparedQuery, evaluator: Evaluator, emit_element: EmitElement | None) -> Emission:
    query = prepared.query
    ordered = has_order(query.root)
    match query.form:
        case "ask":
            return AskEmission()
        case "construct":
            return ConstructEmission(
                prepared.output, evaluator.construct, ordered, prepared.non_empty, emit_element
            )
        case _:
            names = tuple(each.name for each in query.columns)
            return SelectEmission(prepared.output, names, ordered, prepared.non_empty)


def _nothing() -> None:
    """Static parts of a query that is evaluated alone tell nobody of their news."""
