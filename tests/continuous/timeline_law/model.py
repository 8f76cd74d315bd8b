"""What a query tells, by definition: time goes by milliseconds, Oxigraph answers over whole windows.

It knows nothing of the engine: windows are looked up anew at each instant in all elements that were taken.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeAlias

from pyoxigraph import DefaultGraph, NamedNode, Quad, QueryBoolean, QuerySolutions, Store

from .cases import COUNTING, KEYED, XSD, E, Fact, Query, Window

Told: TypeAlias = tuple[str, int, Any]
"""An event: kind, instant, and its rows as sorted texts, or a boolean."""


@dataclass(frozen=True)
class Element:
    """An element of a stream; ``push`` numbers the pushes."""

    at: int
    stream: str
    seq: int
    push: int
    facts: tuple[Fact, ...]


@dataclass
class StreamModel:
    """The time of a stream, in milliseconds; ``heard`` is wall-clock time."""

    lateness: int
    admits: bool
    seen: int | None = None
    floor: int | None = None
    heard: int | None = None
    idle: bool = False

    def guarantee(self, at: int, patience: int) -> None:
        """Nothing before an instant will come any more, where that moves the watermark of its readers."""
        watermark = self.watermark(patience)
        if watermark is None or at > watermark:
            self.floor = at

    def watermark(self, lateness: int = 0) -> int | None:
        """For a reader that waits so long at least."""
        moved = [] if self.seen is None else [self.seen - max(self.lateness, lateness)]
        return max([*moved, *([] if self.floor is None else [self.floor])], default=None)


@dataclass
class World:
    """What all queries see."""

    streams: dict[str, StreamModel]
    stored: set[Fact] = field(default_factory=set)


class Model:
    """One query from its registration on; ``told`` is its feed."""

    def __init__(self, query: Query, world: World) -> None:
        self.query, self.world = query, world
        self.streams = list(dict.fromkeys(each.stream for each in query.windows))
        self.lateness = {
            stream: max(each.lateness for each in query.windows if each.stream == stream)
            for stream in self.streams
        }
        self.told: list[Told] = []
        self._active: set[str] = set()
        self._idle: set[str] = set()
        self._waiting: list[Element] = []
        self._taken: list[Element] = []
        self._instant: int | None = None
        self._next_report: int | None = None
        self._next_close: dict[Window, int] = {}
        self._closed: dict[Window, int] = {}
        self._counted: dict[Window, list[Element]] = {each: [] for each in query.windows}
        self._full: Counter[Window] = Counter()
        self._shown: dict[Window, Sequence[Fact]] = {}
        self._keys: dict[tuple[Window, int], list[str]] = {}
        self._answer: Counter[str] = Counter()
        self._boolean: bool | None = None
        # The last report, while windows still hold what it was made of.
        self._reported: int | None = None

    # --- windows and answers --------------------------------------------------------------------

    def _holds(self, window: Window, element: Element, at: int) -> bool:
        begin, end = at - window.size, at - window.past
        match window.kind:
            case "now":
                return element.at == at
            case "all":
                return True
            case "range" | "past":
                return (
                    begin < element.at if self.query.open_closed else begin <= element.at
                ) and element.at <= end
            case "triples":
                newer = [each for each in self._of(window) if (each.at, each.seq) > (element.at, element.seq)]
                return sum(len(each.facts) for each in newer) < window.size
        if window not in self._closed:
            return False
        begin, end = self._closed[window] - window.size, self._closed[window] - window.past
        return begin < element.at <= end if self.query.open_closed else begin <= element.at < end

    def _of(self, window: Window) -> list[Element]:
        return sorted(
            (each for each in self._taken if each.stream == window.stream),
            key=lambda each: (each.at, each.seq),
        )

    def _keys_of(self, window: Window, element: Element) -> list[str]:
        """What BY names in the solutions of the block over one element."""
        if not window.keys:
            return [""]
        if (window, element.seq) not in self._keys:
            store, names = Store(), " ".join(f"?{key}" for key in window.keys)
            store.extend([Quad(*each, DefaultGraph()) for each in element.facts])
            found = store.query(f"PREFIX : <{E}> SELECT {names} {{ {self.query.block(window)} }}")
            assert isinstance(found, QuerySolutions)
            rows = {" ".join(str(row[key]) for key in window.keys) for row in found}
            self._keys[window, element.seq] = sorted(rows)
        return self._keys[window, element.seq]

    def _by_key(self, window: Window) -> dict[str, list[Element]]:
        found: dict[str, list[Element]] = {}
        for element in self._of(window):
            for key in self._keys_of(window, element):
                found.setdefault(key, []).append(element)
        return found

    def _sessions(self, window: Window) -> list[tuple[str, list[Element]]]:
        """All runs of elements in which each comes less than the gap after the one before."""
        found: list[tuple[str, list[Element]]] = []
        for key, elements in self._by_key(window).items():
            run: list[Element] = []
            for each in elements:
                if not run or each.at >= run[-1].at + window.size:
                    run = []
                    found.append((key, run))
                run.append(each)
        return found

    def _held(self, window: Window, at: int) -> list[tuple[str, Element]]:
        """The elements of a window with keys, each with its key."""
        found = [
            (key, run) for key, run in self._sessions(window) if run[0].at <= at < run[-1].at + window.size
        ]
        if window.kind == "latest":
            begin = at - window.step if window.step else 0
            young = [(key, [e for e in run if begin <= e.at]) for key, run in self._by_key(window).items()]
            found = [(key, run[-window.size :]) for key, run in young]
        return [(key, each) for key, run in found for each in run]

    def _content(self, window: Window, at: int) -> set[Fact]:
        if window.kind in KEYED and (window.kind == "latest" or self.query.report != "on-window-close"):
            return {fact for _, each in self._held(window, at) for fact in each.facts}
        if window.kind in (*COUNTING, "session"):
            return set(self._shown.get(window, ()))
        facts = [fact for each in self._of(window) if self._holds(window, each, at) for fact in each.facts]
        return set(facts[-window.size :] if window.kind == "triples" else facts)

    def _gamma(self, at: int) -> Counter[str] | bool:
        query, text, store = self.query, self.query.body, Store()
        store.extend([Quad(*each, DefaultGraph()) for each in self.world.stored])
        for window in query.windows:
            merged = query.dialect == "csparql"
            graph = NamedNode(f"urn:w{window.number}")
            text = text.replace(f"{{{window.number}", "{" if merged else f"GRAPH {graph} {{")
            content = self._content(window, at)
            store.extend([Quad(*each, DefaultGraph() if merged else graph) for each in content])
        now = datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="milliseconds")
        text = text.replace("NOW()", f'"{now}"^^<{XSD}dateTime>')
        found = store.query(f"PREFIX : <{E}>\n{text}")
        if isinstance(found, QueryBoolean):
            return bool(found)
        assert isinstance(found, QuerySolutions)
        names = [each.value for each in found.variables]
        return Counter(" ".join(str(row[name] or "-") for name in names) for row in found)

    # --- inputs ---------------------------------------------------------------------------------

    def arrive(self, stream: str, elements: Sequence[Element], before: StreamModel) -> None:
        """Elements of one push that entered the stream, whose time was ``before`` until then."""
        if stream not in self.streams:
            return
        self._active.add(stream)
        self._idle.discard(stream)
        watermark = before.watermark(self.lateness[stream])
        late = []
        for each in elements:
            if watermark is not None and each.at < watermark and not before.admits:
                continue
            behind = self._instant is not None and each.at < self._instant
            (late if behind else self._waiting).append(each)
        if self._watermark() is not None:
            self._correct(late)
            self._advance()

    def beat(self, stream: str) -> None:
        """A heartbeat of a stream."""
        if stream in self.streams:
            self._active.add(stream)
            self._idle.discard(stream)
            self._advance()
            if self._instant is None:
                watermark = self._watermark()
                assert watermark is not None
                self._start(watermark)
                if self.query.report == "on-content-change":
                    self._tell(watermark)

    def fall_idle(self, stream: str) -> None:
        """A stream has been silent for too long."""
        if stream in self.streams:
            self._idle.add(stream)
            if self._watermark() is not None:
                self._advance()

    def commit(self, changed: set[Fact]) -> None:
        """Quads were added and removed."""
        body, merged = self.query.body, self.query.dialect == "csparql"
        read = {name for name in ("in", "p", "q") if f":{name}" in body and (merged or name == "in")}
        touched = any(each[1].value.removeprefix(E) in read or (merged and "?p" in body) for each in changed)
        if touched and self._instant is not None and self.query.report == "on-content-change":
            self._tell(self._instant)

    # --- time -----------------------------------------------------------------------------------

    def _watermark(self) -> int | None:
        marks = {each: self.world.streams[each].watermark(self.lateness[each]) for each in self._active}
        running = [at for each, at in marks.items() if each not in self._idle and at is not None]
        return min(running) if running else max((at for at in marks.values() if at is not None), default=None)

    @property
    def _closes_after(self) -> bool:
        return self.query.open_closed and any(each.kind == "grid" for each in self.query.windows)

    def _start(self, origin: int) -> None:
        self._instant = origin
        for window in self.query.windows:
            if window.kind == "grid":
                t0 = self.query.t0 if window.t0 is None else window.t0
                end = (t0 or 0) + window.size
                later = end + ((origin - end) // window.step + 1) * window.step
                self._next_close[window] = later if t0 is None else max(end, later)
        if isinstance(self.query.report, int):
            t0, every = self.query.t0 or 0, self.query.report
            self._next_report = t0 + ((origin - t0) // every + 1) * every

    def _advance(self) -> None:
        """Work off every instant up to the watermark."""
        limit = self._watermark()
        assert limit is not None
        self._waiting.sort(key=lambda each: (each.at, self.streams.index(each.stream), each.seq))
        if self._instant is None:
            if not self._waiting or self._waiting[0].at > limit:
                return
            self._start(self._waiting[0].at)
            self._take(first=True, time=False)
        assert self._instant is not None
        while True:
            while self._waiting and self._waiting[0].at == self._instant <= limit:
                self._take(first=False, time=False)
            if self._instant >= limit:
                return
            if self._closes_after:
                due, closed = self._is_due(), self._close()
                self._report(closed, closed, due)
            self._instant += 1
            if self._waiting and self._waiting[0].at == self._instant:
                self._take(first=False, time=True)
            else:
                self._report(*self._pass_by())

    def _pass_by(self) -> tuple[bool, bool, bool]:
        """As `_pass`; sessions that close are reported, with grids that do."""
        changed, closed, due = self._pass()
        told = self._close_sessions()
        return changed, closed and not told, due

    def _pass(self) -> tuple[bool, bool, bool]:
        """What time does at an instant: elements leave, windows close, a report is due."""
        at = self._instant
        assert at is not None
        sliding = [each for each in self.query.windows if each.kind in ("now", "range", "past")]
        left = any(
            self._holds(window, each, at - 1) != self._holds(window, each, at)
            for window in sliding
            for each in self._of(window)
        )
        for window in self.query.windows:
            if window.kind in KEYED:
                left = left or self._seqs(window, at - 1) != self._seqs(window, at)
        if self._closes_after:
            return left, False, False
        due, closed = self._is_due(), self._close()
        return left or closed, closed, due

    def _seqs(self, window: Window, at: int) -> set[tuple[str, int]]:
        return {(key, each.seq) for key, each in self._held(window, at)}

    def _close_sessions(self) -> bool:
        """Report the sessions that close now one by one; False when none does."""
        at, any_closed = self._instant, False
        assert at is not None
        for window in self.query.windows:
            if window.kind == "session" and self.query.report == "on-window-close":
                ending = [each for each in self._sessions(window) if each[1][-1].at + window.size == at]
                for _, run in sorted(ending, key=lambda each: each[0].replace("<", "!")):  # IRIs first
                    self._shown[window] = [fact for each in run for fact in each.facts]
                    self._tell(at)
                    any_closed = True
        return any_closed

    def _is_due(self) -> bool:
        due = self._next_report is not None and self._next_report == self._instant
        if due:
            assert self._next_report is not None and isinstance(self.query.report, int)
            self._next_report += self.query.report
        return due

    def _close(self) -> bool:
        ending = [each for each, close in self._next_close.items() if close == self._instant]
        for window in ending:
            self._closed[window] = self._next_close[window]
            self._next_close[window] += window.step
        return bool(ending)

    def _take(self, *, first: bool, time: bool) -> None:
        """The next transaction: the elements of one push with this time, with what time does before it."""
        head = self._waiting[0]
        changed, closed, due = self._pass_by() if time else (first, False, False)
        while self._waiting and self._waiting[0].push == head.push and self._waiting[0].at == head.at:
            element = self._waiting.pop(0)
            read = [each for each in self.query.windows if each.stream == element.stream]
            keyed = [each for each in read if each.kind in KEYED]
            before = [self._seqs(each, head.at) for each in keyed]
            self._taken.append(element)
            changed = changed or before != [self._seqs(each, head.at) for each in keyed]
            changed = changed or any(each.kind in ("now", "range", "triples", "all") for each in read)
            for window in read:
                self._counted[window].append(element)
            while any([self._count(window) for window in read]):
                changed = True
                if self.query.report == "on-window-close":
                    self._tell(head.at)
                    closed = False
        self._report(changed, closed, due)

    def _count(self, window: Window) -> bool:
        """Close a window that counts, if that is due."""
        counted, full = self._counted[window], self._full[window]
        if window.kind == "elements" and len(counted) >= full + window.step:
            self._full[window] += window.step
            self._shown[window] = [fact for each in counted[-window.size :] for fact in each.facts]
            return True
        if window.kind == "batch":
            facts = [fact for each in counted for fact in each.facts]
            if len(facts) >= full + window.size:
                self._full[window] += window.size
                self._shown[window] = facts[full : full + window.size]
                return True
        return False

    def _correct(self, late: list[Element]) -> None:
        """Elements behind the query's instant: one transaction for each of their times."""
        assert self._instant is not None or not late
        for at in sorted({each.at for each in late}):
            of_time = [each for each in late if each.at == at]
            keyed = [each for each in self.query.windows if each.kind in KEYED]
            before = [self._seqs(each, self._instant or 0) for each in keyed]
            self._taken += of_time
            changed = before != [self._seqs(each, self._instant or 0) for each in keyed]
            changed = changed or any(
                window.stream == each.stream
                and window.kind not in KEYED
                and self._holds(window, each, self._instant or 0)
                for window in self.query.windows
                for each in of_time
            )
            if not changed:
                continue
            if self.query.report == "on-content-change":
                self._tell(self._instant or 0)
            elif self._reported is not None and at <= self._reported:
                self._tell(self._reported)
            else:
                self._reported = None

    # --- what is told ---------------------------------------------------------------------------

    def _report(self, changed: bool, closed: bool, due: bool) -> None:
        assert self._instant is not None
        if changed:
            self._reported = None
        wanted = {"on-content-change": changed, "on-window-close": closed}
        if wanted.get(self.query.report, due) if isinstance(self.query.report, str) else due:
            self._tell(self._instant)

    def _tell(self, at: int) -> None:
        query = self.query
        if query.report != "on-content-change":
            self._reported = at
            if query.non_empty and not any(self._content(each, at) for each in query.windows):
                return
        now = self._gamma(at)
        if isinstance(now, bool):
            if now != self._boolean:
                self._boolean = now
                self.told.append(("answer", at, now))
            return
        before, self._answer = self._answer, now
        if query.output == "rstream" and (now or not query.non_empty):
            self.told.append(("answer", at, sorted(now.elements())))
        for kind, outputs, rows in (
            ("delete", ("dstream", "changes"), before - now),
            ("insert", ("istream", "changes"), now - before),
        ):
            if query.output in outputs and rows:
                self.told.append((kind, at, sorted(rows.elements())))
