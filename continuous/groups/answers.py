"""The members of a common plan, whose rows bear their labels: the answer of each, and what it is told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..algebra.reports import Evaluation
from ..evaluate.native import AnswerChange, IncrementalAnswer
from ..plan.run_loop import MemberOutput, RunResult
from ..queries.running import RunningQuery
from ..rows import EMPTY, Delta, IdRow, merge, negate
from .members import EvaluationRecord, Failures, native_of


class MemberAnswers(dict[int, IncrementalAnswer]):
    """By label, which is the column ``label_at`` of the plan's rows; none has had more than ``most`` rows."""

    def __init__(self, label_at: int, kept: int, *, whole: bool) -> None:
        """``kept``: how many rows each may have; ``whole``: members are told whole answers."""
        self.label_at = label_at
        self.most = 0
        # The members whose answers have rows, where they are told whole.
        self.filled: dict[int, None] = {}
        self._kept = kept
        self._whole = whole

    def step(self, delta: Delta) -> dict[int, AnswerChange]:
        """Whose answers a change of the plan's rows changes, and how."""
        told = {label: self.change(label, share) for label, share in self.shares(delta).items()}
        for label in told if self._whole else ():
            if self[label].rows:
                self.filled[label] = None
            else:
                self.filled.pop(label, None)
        return told

    def change(self, label: int, share: Delta = EMPTY) -> AnswerChange:
        """The answer of a member, behind a step or a run that changed it so."""
        answer = self[label]
        change = answer.step(share)
        self.most = max(self.most, len(answer.rows))
        return change

    def check(self, before: Delta, delta: Delta) -> int:
        """How many rows any may have more behind a change and the next one; raises BudgetError."""
        shares = self.shares(merge(dict(before), delta))
        return min([self._kept - self.most, *(self[each].check([share]) for each, share in shares.items())])

    def shares(self, delta: Delta) -> dict[int, Delta]:
        """A change of the plan's rows by the labels of members."""
        shares: dict[int, Delta] = {}
        place = self.label_at
        for row, weight in delta.items():
            shares.setdefault(row[place], {})[row] = weight
        return shares

    def referenced_rows(self) -> Iterator[IdRow]:
        """The rows of all, and of changes that are not decoded yet."""
        for answer in list(self.values()):
            yield from answer.referenced_rows()


class GroupMember(MemberOutput):
    """A query in a common plan: what a run tells it, and what follows for its figures."""

    def __init__(self, running: RunningQuery, number: int) -> None:
        """``number`` is that of the plan's newest evaluation."""
        super().__init__(running.emission.counts)
        self.running, self.feed, self.results = running, running.feed, running.results
        self.steps = native_of(running).statics.steps
        # The number of the evaluation that the query's figures are of.
        self.seen = number
        # The one that a run told its last event of: number, and the event's id, instant, version and time.
        self._answered, self._event = 0, (0, 0, 0, 0)

    def follow(self, record: EvaluationRecord, number: int = 0) -> None:
        """Bring the query's figures to an evaluation of all; one with a ``number`` it is told by itself."""
        running, before = self.running, self.seen
        self.seen = max(before, record.number, number)
        if record.number <= before:
            return
        running.last.evaluations += record.number - before
        running.last.step = record.step
        if self._answered > before:
            before, running.last.answer_id = self._answered, self._event[0]
            running.last.result = dict(zip(("id", "at", "version", "emitted"), self._event, strict=True))
        if record.told > before:
            running.last.answer_id = None
        running.last.version = self.steps.version_at(record.passed)

    def publish(
        self, step: Evaluation, number: int, first: int, change: AnswerChange | None, now_ms: int
    ) -> None:
        """Tell what a run has for it, whose last step has a number; ``first`` is that of its first one."""
        running, version = self.running, self.version
        current = None if change is None else running.answer_writer(step, version, change, number)
        if ids := self.feed.publish(self.events, current):
            self._answered, self._event = first + self.place, (ids[-1], self.at, version, now_ms)
            self.results.add(now_ms, len(ids))
        self.events.clear()  # the feed has them; the next run begins with none


class MembersByLabel(dict[int, GroupMember]):
    """Whom a run tells something, by label."""

    def __init__(self, seats: Mapping[int, GroupMember], head: str) -> None:
        """``head`` is that of the emission of each."""
        self._seats, self._head = seats, head

    def __missing__(self, label: int) -> GroupMember:
        mine = self[label] = self._seats[label]
        mine.version = mine.steps.frontier.version
        mine.middle = f',"version":{mine.version}{self._head}'
        return mine

    def tell(
        self,
        answers: MemberAnswers,
        ran: RunResult,
        record: EvaluationRecord,
        now_ms: int,
        failures: Failures,
    ) -> None:
        """Tell members of a run behind a plan's newest evaluation; those that cannot be told fail."""
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
