"""Tables on disk: which are written, when, and which of them a start may take instead of evaluating them.

An item says between which versions the rows were the same (``since``, ``until``) and names the history of the
store up to ``until`` (`QuadStore.mark`). It serves at a version

    since ... until         the rows were these
    behind until            when no commit from there on can have touched them, by the change log
    anywhere else           not: the rows are evaluated

and only for the same pattern over the same dataset clause, of the same program and the same Oxigraph.

Rows are written as blobs, the terms once each as N-Quads, the rows as columns of numbers. The first blob says
how wide and how many the rows are; then come blobs of terms, then of rows. A number is the place of a term,
counted from 1; 0 is unbound.
"""

from __future__ import annotations

import hashlib
import json
import logging
import time
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as release_of
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any, TypeVar

from pyoxigraph import NamedNode, Quad

from quadrill.store.dictionary import inline_term
from quadrill.store.errors import GoneError, QuadrillError
from quadrill.store.shelf import Shelf
from quadrill.store.terms import Term

from ..algebra.columnar import Choice
from ..durable.journal import from_lines, to_lines
from ..element import Solution
from ..rows import Delta
from ..settings import StaticLimits
from .reading import Background
from .table import Table
from .trigger_index import TriggerIndex

if TYPE_CHECKING:
    from quadrill.store.quads.quad_store import QuadStore

    from ..windows.encoded import EngineTerms

log = logging.getLogger("quadrill.continuous")

FORMAT = 1
MOST_COMMITS = 10_000
"""So many commits of the change log are looked at, at most."""
T = TypeVar("T")
TERMS_EACH = 5_000
"""Terms of a blob: serialising them holds the interpreter, so that the engine waits as long."""
ROWS_EACH = 20_000
_CARRIER = NamedNode("urn:quadrill:term")


def _release(package: str) -> str:
    try:
        return release_of(package)
    except PackageNotFoundError:
        return "unknown"


_PROGRAM = f"{FORMAT} {_release('quadrill')} {_release('pyoxigraph')}"


@dataclass(frozen=True, slots=True)
class KeptFacts:
    """What is known of rows on disk.

    ``read_s``: how long evaluating them took, in seconds; ``choice``: by which engine and why.
    """

    key: str
    since: int
    until: int
    mark: str
    read_s: float
    choice: tuple[str, str] | None


@dataclass(frozen=True, slots=True)
class _Copy:
    """The rows of a table at the moment of a checkpoint; ``release`` lets their terms go."""

    key: str
    table: Table
    facts: dict[str, Any]
    rows: Delta
    listed: Sequence[Solution] | None
    release: Callable[[], None]


class KeptTables:
    """The tables of one engine on disk.

    `keep` is called in the engine's thread, `find`, `unchanged` and `load` by whoever makes queries.
    """

    def __init__(
        self,
        shelf: Shelf,
        store: QuadStore,
        terms: EngineTerms,
        background: Background,
        limits: StaticLimits,
    ) -> None:
        """Keep tables on a shelf, which are written in the background."""
        self._shelf = shelf
        self._store = store
        self._terms = terms
        self._background = background
        self._limits = limits
        self._on_disk: dict[str, tuple[int, int]] = {}
        self._not_before: dict[str, float] = {}
        self._keys: set[str] | None = None
        self._writing: Future[None] | None = None
        self.taken = 0
        """How many tables were read from disk."""

    @property
    def bytes(self) -> int:
        """What they take on disk."""
        return self._shelf.size

    # --- writing --------------------------------------------------------------------------------

    def keep(
        self,
        tables: Iterable[Table],
        version: int,
        evaluated: Mapping[str, int],
        *,
        at_end: bool = False,
    ) -> None:
        """Write what has changed since it was written; forget tables that are gone.

        A restart begins with each query at the version of its last evaluation. Rows that are younger would
        not serve there: those from before stay on disk until the query was evaluated with these.

        Args:
            tables: all tables.
            version: the version whose turn came last.
            evaluated: by the name of the query the version of its last evaluation.
            at_end: nothing comes after this: everything is written, here and now.
        """
        if self._writing is not None and not self._writing.done() and not at_end:
            return
        self.wait()
        copies: list[_Copy] = []
        notes: dict[str, dict[str, Any]] = {}
        keys: set[str] = set()
        for table in tables:
            if table.ready.is_set() and table.took_s < self._limits.kept_s:
                continue
            key = _key(table)
            keys.add(key)
            if (
                not table.ready.is_set()
                or not table.live
                or table.behind is not None
                or table.problem is not None
            ):
                continue
            choice = None if table.choice is None else (table.choice.engine, table.choice.reason)
            until = max(version, table.version)
            facts = {"since": table.since, "until": until, "read_s": table.took_s, "choice": choice}
            on_disk = self._on_disk.get(key)
            if on_disk == (table.since, until):
                continue
            if on_disk is not None and on_disk[0] == table.since:
                notes[key] = facts
            elif table.since > min(
                (evaluated.get(each.name, version) for each in table.readers), default=version
            ):
                continue
            elif at_end or time.monotonic() >= self._not_before.get(key, 0.0):
                copies.append(self._copy(key, table, facts))
        if not (copies or notes or keys != self._keys):
            return
        self._keys = keys
        self._writing = self._background.do(self._write, copies, notes, keys)
        if at_end:
            self.wait()

    def wait(self) -> None:
        """Wait for what is being written."""
        if self._writing is not None:
            self._writing.result()

    def close(self) -> None:
        """Wait for what is being written and close the file."""
        self._background.close()
        self._shelf.close()

    def _copy(self, key: str, table: Table, facts: dict[str, Any]) -> _Copy:
        rows = dict(table.rows)
        # The table may let terms go while they are written.
        release = self._terms.dictionary.hold(lambda: rows)
        return _Copy(key, table, facts, rows, table.listed, release)

    def _write(self, copies: Sequence[_Copy], notes: Mapping[str, Mapping[str, Any]], keys: set[str]) -> None:
        try:
            for copy in copies:
                self._write_rows(copy)
            marked = {key: self._marked(facts) for key, facts in notes.items()}
            noted = {key: facts for key, facts in marked.items() if facts is not None}
            if self._shelf.note(noted):
                self._on_disk.update({key: (each["since"], each["until"]) for key, each in noted.items()})
            self._shelf.keep_only(keys)
            for key in set(self._on_disk) - keys:
                del self._on_disk[key]
        except QuadrillError as error:
            log.warning("tables of static parts are not kept: %s", error.message)
        except Exception:
            log.exception("tables of static parts are not kept")
        finally:
            for copy in copies:
                copy.release()

    def _write_rows(self, copy: _Copy) -> None:
        began = time.monotonic()
        facts = self._marked(copy.facts)
        if facts is None:
            return
        width = len(copy.table.part.vars)
        blobs: Iterator[bytes]
        if copy.listed is None:
            blobs = pack(copy.rows, width, 0, self._term)
        else:
            blobs = pack([tuple(row) for row in copy.listed], width, None, _bound)
        if self._shelf.write(copy.key, facts, blobs):
            self._on_disk[copy.key] = (facts["since"], facts["until"])
        self._not_before[copy.key] = time.monotonic() + self._limits.kept_pauses * (time.monotonic() - began)

    def _marked(self, facts: Mapping[str, Any]) -> dict[str, Any] | None:
        """With the name of the history; None when it has none."""
        mark = self._store.mark(facts["until"])
        return None if mark is None else {**facts, "mark": mark}

    def _term(self, term_id: int) -> Term:
        # The dictionary's own mapping would remember the terms of inline ids, in the engine's way.
        return inline_term(term_id) if term_id < 0 else self._terms.dictionary.terms[term_id]

    # --- reading --------------------------------------------------------------------------------

    def find(self, table: Table) -> KeptFacts | None:
        """The rows of a table on disk, if they are of this store."""
        key = _key(table)
        facts = self._shelf.facts(key)
        if facts is None:
            return None
        try:
            choice = facts["choice"]
            found = KeptFacts(
                key,
                int(facts["since"]),
                int(facts["until"]),
                str(facts["mark"]),
                float(facts["read_s"]),
                None if choice is None else (str(choice[0]), str(choice[1])),
            )
        except (LookupError, TypeError, ValueError) as error:
            log.warning("the static part %s is read anew: what is on disk says %r", table.name, error)
            return None
        if self._store.mark(found.until) != found.mark:
            log.info("the static part %s is read anew: its rows on disk are of another history", table.name)
            return None
        return found

    def unchanged(self, table: Table, since: int, version: int) -> int:
        """The newest version up to ``version`` to which no commit behind ``since`` can have changed rows."""
        if version <= since:
            return since
        if version - since > MOST_COMMITS:
            return since
        index = TriggerIndex()
        index.add(table)
        reached = since
        try:
            for commit in self._store.commits_after(since, version - since):
                if index.touched(commit):
                    break
                reached = commit.version
        except GoneError:
            return since
        return reached

    def load(self, table: Table, found: KeptFacts, version: int) -> bool:
        """Give a table its rows; False when they are damaged, which is told and they are forgotten."""
        began = time.perf_counter()
        try:
            _take(table, PackedRows(self._shelf.read(found.key)), version, found)
        except Exception as error:
            log.warning("the static part %s is read anew: its rows on disk: %s", table.name, error)
            self._shelf.forget(found.key)
            self._on_disk.pop(found.key, None)
            return False
        table.choice = None if found.choice is None else Choice(*found.choice)
        self._on_disk[found.key] = (found.since, found.until)
        self.taken += 1
        seconds = time.perf_counter() - began
        log.info("the static part %s: %d rows read from disk in %.3f s", table.name, table.count, seconds)
        return True


def _take(table: Table, kept: PackedRows, version: int, found: KeptFacts) -> None:
    """Give a table all rows as they were written to disk; they are those of this version."""
    if kept.width != len(table.part.vars):
        raise ValueError("the rows have another width")
    fresh: Delta = {}
    listed: Sequence[Solution] | None = None
    if table.is_ordered:
        listed = [row for row, _ in kept.rows(kept.terms, None)]
    else:
        terms = table.terms
        with terms.planning:
            ids = terms.dictionary.ids
            fresh.update(kept.rows([ids[term] for term in kept.terms], 0))
            terms.dictionary.pin(term_id for row in fresh for term_id in row)
    table.begin_at(version, fresh, listed)
    table.since, table.from_disk = found.since, found.until


def _key(table: Table) -> str:
    return hashlib.sha256(f"{_PROGRAM} {table.key}".encode()).hexdigest()


def _bound(term: Term | None) -> Term:
    assert term is not None
    return term


# --- rows as blobs -------------------------------------------------------------------------------


def pack(
    rows: Mapping[tuple[T, ...], int] | Sequence[tuple[T, ...]],
    width: int,
    unbound: T,
    term_of: Callable[[T], Term],
) -> Iterator[bytes]:
    """The blobs of rows: how often each is there, or in their order.

    Args:
        rows: of terms or what stands for them; nobody changes them meanwhile.
        width: the number of columns.
        unbound: what stands in a row where there is no term.
        term_of: the term that something in a row stands for.
    """
    numbers: dict[T, int] = {unbound: 0}
    # A loop and no single call: other threads go on between its steps.
    for each in chain.from_iterable(rows):
        if each not in numbers:
            numbers[each] = len(numbers)
    kept = list(numbers)[1:]
    counts = list(rows.values()) if isinstance(rows, Mapping) else []
    if all(count == 1 for count in counts):
        counts = []
    blobs = -(-len(kept) // TERMS_EACH)
    yield json.dumps({"width": width, "rows": len(rows), "terms": blobs, "counted": bool(counts)}).encode()
    for start in range(0, len(kept), TERMS_EACH):
        terms = [term_of(each) for each in kept[start : start + TERMS_EACH]]
        yield to_lines([Quad(_CARRIER, _CARRIER, term) for term in terms])
    ordered = list(rows)
    for start in range(0, len(ordered), ROWS_EACH):
        some = ordered[start : start + ROWS_EACH]
        columns = [array("q", map(numbers.__getitem__, column)) for column in zip(*some, strict=True)]
        if counts:
            columns.append(array("q", counts[start : start + ROWS_EACH]))
        yield b"".join(column.tobytes() for column in columns)


class PackedRows:
    """Rows read back: ``terms`` in the order of their numbers, rows of any numbering by `rows`."""

    def __init__(self, blobs: Sequence[bytes]) -> None:
        """Unpack the terms and rows of a blob.

        Raises:
            ValueError: they are not the rows of a table.
        """
        head = json.loads(blobs[0])
        self.width, self.count, self._counted = head["width"], head["rows"], head["counted"]
        ends = 1 + head["terms"]
        self.terms: list[Term] = [quad.object for blob in blobs[1:ends] for quad in from_lines(blob)]
        self._blobs = blobs[ends:]
        step = 8 * (self.width + self._counted)
        if sum(map(len, self._blobs)) != step * self.count:
            raise ValueError("the number of rows is wrong")

    def rows(self, values: Sequence[T], unbound: T) -> Iterator[tuple[tuple[T, ...], int]]:
        """Each row and how often it is there, of ``values`` that stand for the terms."""
        numbered = [unbound, *values]
        if not self.width:
            counts = list(_numbers(b"".join(self._blobs))) if self._counted else [1] * self.count
            yield from (((), count) for count in counts)
            return
        for blob in self._blobs:
            numbers = _numbers(blob)
            size = len(numbers) // (self.width + self._counted)
            columns = [numbers[place * size : (place + 1) * size] for place in range(self.width)]
            rows = zip(*(map(numbered.__getitem__, each) for each in columns), strict=True)
            counted = numbers[self.width * size :] if self._counted else repeat(1, size)
            yield from zip(rows, counted, strict=True)


def _numbers(blob: bytes) -> array[int]:
    numbers: array[int] = array("q")
    numbers.frombytes(blob)
    return numbers
