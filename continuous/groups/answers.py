"""The answers of the members of a common plan: its rows bear the label of the query that they are for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from ..algebra.reports import Evaluation
from ..evaluate.native import AnswerChange, IncrementalAnswer
from ..plan.run_loop import MemberTold, Ran
from ..queries.running import RunningQuery, version_of
from ..rows import EMPTY, Delta, IdRow
from .members import Failures


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
        told = {label: self.change(label, share) for label, share in self._shares(delta).items()}
        for label in told if self._whole else ():
            if self[label].rows:
                self.filled[label] = None
            else:
                self.filled.pop(label, None)
        return told

    def change(self, label: int, *deltas: Delta) -> AnswerChange:
        """The answer of a member, behind steps that changed it so."""
        answer = self[label]
        change = answer.step(*deltas or (EMPTY,))
        if len(answer.rows) > self.most:
            self.most = len(answer.rows)
        return change

    def check(self, told: Mapping[int, MemberTold], delta: Delta) -> int:
        """How many rows any may have more behind what a run tells and a change; raises BudgetError."""
        shares = self._shares(delta)
        rooms = [self._kept - self.most]
        for label in {**told, **shares}:
            rooms.append(self[label].check([*told[label].changes, shares.get(label, EMPTY)]))
        return min(rooms)

    def held(self) -> Iterator[IdRow]:
        """The rows of all, and of changes that are not decoded yet."""
        for answer in list(self.values()):
            yield from answer.held()

    def _shares(self, delta: Delta) -> dict[int, Delta]:
        """A change of the plan's rows by the labels of members."""
        shares: dict[int, Delta] = {}
        place = self.label_at
        for row, weight in delta.items():
            shares.setdefault(row[place], {})[row] = weight
        return shares


class Sitting(Protocol):
    """A member of a common plan: ``seen`` is the number of the evaluation that its figures are of."""

    running: RunningQuery
    seen: int

    def settle(self) -> None:
        """Bring the query's figures to the plan's newest evaluation."""
        ...


class Telling(dict[int, MemberTold]):
    """What a run tells members, by their labels; begins with who has rows in it."""

    def __init__(self, seats: Mapping[int, Sitting], head: str) -> None:
        """``head`` is that of the emission of each."""
        self._seats = seats
        self._head = head

    def __missing__(self, label: int) -> MemberTold:
        running = self._seats[label].running
        middle = f',"version":{version_of(running)}{self._head}'
        mine = self[label] = MemberTold([], [], 0, False, running.emission.counts, middle)
        return mine

    def tell(self, answers: MemberAnswers, ran: Ran, number: int, now_ms: int, failures: Failures) -> None:
        """Tell members of a run, whose last evaluation has a number; those that cannot be told fail."""
        last = Evaluation(ran.at, "elements" if ran.entered else "time")
        before = Evaluation(ran.before[0], "elements" if ran.before[1] else "time")
        for label, mine in self.items():
            seat, instants = self._seats[label], ran.instants - (mine.refused is not None)
            running = seat.running
            try:
                seat.settle()
                seat.seen = number
                if instants:
                    running.evaluations += instants - 1
                    step, answer = before if mine.refused else last, answers.change(label, *mine.changes)
                    running.publish(step, version_of(running), mine.events, answer, now_ms, mine.at)
                    if mine.place != instants - 1:
                        running.last_answer_id = None
                if mine.refused:
                    running.tell(last, answers.change(label, mine.refused), now_ms)
            except Exception as error:
                failures.append((running, error))
