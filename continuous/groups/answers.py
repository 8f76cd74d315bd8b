"""Answers and events of the members of a shared plan, each of whose rows carries the label of its member."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..algebra.reports import Evaluation
from ..evaluate.native import AnswerChange, IncrementalAnswer
from ..plan.run_loop import MemberOutput, RunResult
from ..queries.running import RunningQuery
from ..rows import EMPTY, Delta, IdRow, merge, negate
from .members import EvaluationRecord, Failures, native_of


class MemberAnswers(dict[int, IncrementalAnswer]):
    """The answers of a shared plan's members, by the label of the member.

    Attributes:
        label_at: the column of the plan's rows that contains the label of the member.
        most: the greatest number of rows that any member's answer has had.
    """

    def __init__(self, label_at: int, kept: int, *, whole: bool) -> None:
        """Create an empty map of members' answers.

        Args:
            label_at: the column of the label in the plan's rows.
            kept: the maximum number of rows of one answer.
            whole: members emit whole answers (Rstream) instead of changes.
        """
        self.label_at = label_at
        self.most = 0
        # Labels of the members whose answers have rows; used only if members emit whole answers.
        self.filled: dict[int, None] = {}
        self._kept = kept
        self._whole = whole

    def step(self, delta: Delta) -> dict[int, AnswerChange]:
        """Apply a change of the plan's rows; return the changes of the affected answers by label."""
        changes_by_label = {label: self.change(label, share) for label, share in self.shares(delta).items()}
        for label in changes_by_label if self._whole else ():
            if self[label].rows:
                self.filled[label] = None
            else:
                self.filled.pop(label, None)
        return changes_by_label

    def change(self, label: int, share: Delta = EMPTY) -> AnswerChange:
        """Apply a change of one member's rows to the member's answer; return the answer's change."""
        answer = self[label]
        change = answer.step(share)
        self.most = max(self.most, len(answer.rows))
        return change

    def check(self, before: Delta, delta: Delta) -> int:
        """Return how many rows each answer may still gain after both changes; raises BudgetError.

        Neither of the two changes is applied to the answers.
        """
        shares = self.shares(merge(dict(before), delta))
        return min([self._kept - self.most, *(self[each].check([share]) for each, share in shares.items())])

    def shares(self, delta: Delta) -> dict[int, Delta]:
        """Divide a change of the shared plan's rows by the labels of the members."""
        shares: dict[int, Delta] = {}
        place = self.label_at
        for row, weight in delta.items():
            shares.setdefault(row[place], {})[row] = weight
        return shares

    def referenced_rows(self) -> Iterator[IdRow]:
        """Yield the rows of all members' answers and of changes that are not decoded to terms yet."""
        for answer in list(self.values()):
            yield from answer.referenced_rows()


class GroupMember(MemberOutput):
    """A member of a shared plan: the events that a run emits for the query, and the query's figures."""

    def __init__(self, running: RunningQuery, number: int) -> None:
        """Create the member; ``number`` is the number of the shared plan's newest evaluation."""
        super().__init__(running.emission.counts)
        self.running, self.feed, self.results = running, running.feed, running.results
        self.steps = native_of(running).statics.steps
        # The number of the shared plan's evaluation that the member's figures describe.
        self.seen = number
        # Number of the evaluation that emitted the query's last event in a run, and that event's id, instant,
        # version and emission time.
        self._answered, self._event = 0, (0, 0, 0, 0)

    def follow(self, record: EvaluationRecord, number: int = 0) -> None:
        """Update the query's figures to the shared plan's evaluation in `record`.

        ``number`` is the number of an evaluation that the caller emits for this member separately; 0 for
        none.
        """
        running, before = self.running, self.seen
        self.seen = max(before, record.number, number)
        if record.number <= before:
            return
        running.last.evaluations += record.number - before
        running.last.step = record.step
        if self._answered > before:
            before, running.last.answer_id = self._answered, self._event[0]
            running.last.result = dict(zip(("id", "at", "version", "emitted"), self._event, strict=True))
        if record.reported > before:
            running.last.answer_id = None
        running.last.version = self.steps.version_at(record.passed)

    def publish(
        self, step: Evaluation, number: int, first: int, change: AnswerChange | None, now_ms: int
    ) -> None:
        """Publish to its feed the member's events of a run of the shared plan.

        ``first`` and ``number`` are the numbers of the run's first and last evaluation.
        """
        running, version = self.running, self.version
        current = None if change is None else running.answer_writer(step, version, change, number)
        if ids := self.feed.publish(self.events, current):
            self._answered, self._event = first + self.place, (ids[-1], self.at, version, now_ms)
            self.results.add(now_ms, len(ids))
        self.events.clear()  # The feed has copied the events, so the next run begins with an empty list.


class MembersByLabel(dict[int, GroupMember]):
    """The members for which a run of a shared plan emits events, by label.

    A member is added to the map at its first event of the shared plan's run.
    """

    def __init__(self, slots: Mapping[int, GroupMember], head: str) -> None:
        """Create an empty map of members; ``head`` is an event's JSON between version and rows."""
        self._slots, self._head = slots, head

    def __missing__(self, label: int) -> GroupMember:
        mine = self[label] = self._slots[label]
        mine.version = mine.steps.frontier.version
        mine.middle = f',"version":{mine.version}{self._head}'
        return mine

    def emit(
        self,
        answers: MemberAnswers,
        ran: RunResult,
        record: EvaluationRecord,
        now_ms: int,
        failures: Failures,
    ) -> None:
        """Publish the events of a shared plan's run to all members with changed answers.

        ``record`` is the newest evaluation of the shared plan before the run. Members whose events cannot be
        published are added to the list ``failures``.
        """
        last = Evaluation(ran.at, "elements" if ran.entered else "time")
        before = Evaluation(ran.before[0], "elements" if ran.before[1] else "time")
        for refused in ran.refused.values():
            merge(ran.net, negate(refused))
        shares, first, number = answers.shares(ran.net), record.number + 1, record.number + ran.instants
        for label in [*self, *(shares.keys() - self.keys())]:
            mine, share = self[label], shares.get(label)
            try:
                change = None if share is None else answers.change(label, share)
                if label not in ran.refused:
                    mine.publish(last, number, first, change, now_ms)
                    continue
                mine.publish(before, number - 1, first, change, now_ms)
                if number > first:
                    record = EvaluationRecord(number - 1, before, mine.steps.own.version, number - 1)
                mine.follow(record, number)
                mine.running.emit(last, answers.change(label, ran.refused[label]), now_ms)
            except Exception as error:
                failures.append((mine.running, error))
