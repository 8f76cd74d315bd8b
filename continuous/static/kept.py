"""Tables on disk: which are written, when, and which of them a start may take instead of evaluating them.

An item says between which versions the rows were the same (``since``, ``until``) and names the history of the
store up to ``until`` (`QuadStore.mark`). It serves at a version

    since ... until         the rows were these
    behind until            when no commit from there on can have touched them, by the change log
    anywhere else           not: the rows are evaluated

and only for the same pattern over the same dataset clause, of the same program and the same Oxigraph.
"""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as release_of
from typing import TYPE_CHECKING, Any

from quadrill.store.dictionary import inline_term
from quadrill.store.errors import GoneError, QuadrillError
from quadrill.store.shelf import Shelf

from ..algebra.columnar import Choice
from ..element import Solution
from ..rows import Delta
from .index import TriggerIndex
from .packed_rows import PackedRows, pack
from .table import Table

if TYPE_CHECKING:
    from quadrill.store.quads.quad_store import QuadStore
    from quadrill.store.terms import Term

    from ..windows.encoded import EngineTerms

log = logging.getLogger("quadrill.continuous")

FORMAT = 1
WORTH_S = 0.05
"""Tables that are evaluated more quickly than this are not kept."""
MOST_COMMITS = 10_000
"""So many commits of the change log are looked at, at most."""
_PAUSES = 20
"""A table that was written in a second is written again 20 seconds later at the earliest, but at the end."""


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

    def __init__(self, shelf: Shelf, store: QuadStore, terms: EngineTerms, *, threaded: bool = True) -> None:
        """Keep tables on a shelf; ``threaded`` writes in the background."""
        self._shelf = shelf
        self._store = store
        self._terms = terms
        self._threaded = threaded
        self._on_disk: dict[str, tuple[int, int]] = {}
        self._not_before: dict[str, float] = {}
        self._keys: set[str] | None = None
        self._thread: threading.Thread | None = None
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
        if self._thread is not None:
            if self._thread.is_alive() and not at_end:
                return
            self._thread.join()
            self._thread = None
        copies: list[_Copy] = []
        notes: dict[str, dict[str, Any]] = {}
        keys: set[str] = set()
        for table in tables:
            if table.ready.is_set() and table.took_s < WORTH_S:
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
        if at_end or not self._threaded:
            self._write(copies, notes, keys)
            return
        self._thread = threading.Thread(
            target=self._write, args=(copies, notes, keys), name="quadrill-kept", daemon=True
        )
        self._thread.start()

    def wait(self) -> None:
        """Wait for what is being written."""
        thread = self._thread
        if thread is not None:
            thread.join()

    def close(self) -> None:
        """Wait for what is being written and close the file."""
        self.wait()
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
        self._not_before[copy.key] = time.monotonic() + _PAUSES * (time.monotonic() - began)

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
            table.load_kept(PackedRows(self._shelf.read(found.key)), version, found.since, found.until)
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


def _key(table: Table) -> str:
    return hashlib.sha256(f"{_PROGRAM} {table.key}".encode()).hexdigest()


def _bound(term: Term | None) -> Term:
    assert term is not None
    return term
