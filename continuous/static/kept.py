"""Tables on disk: which are written, when, and which of them a start may take instead of evaluating them.

An item says between which versions the rows were the same (``since``, ``until``) and names the history of the
store up to ``until`` (`QuadStore.mark`). It serves at a version

    since ... until         the rows were these
    behind until            when no commit from there on can have touched them, by the change log,
                            and looking at these commits is less than evaluating
    anywhere else           not: the rows are evaluated

and only for the same pattern over the same dataset clause, of the same program and the same Oxigraph.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass, replace
from itertools import chain

from quadrill.store.changes.remembered import RememberedCommits
from quadrill.store.dictionary import inline_term
from quadrill.store.documents.packed_rows import PackedRows, pack
from quadrill.store.errors import GoneError, QuadrillError
from quadrill.store.quads.quad_store import QuadStore
from quadrill.store.shelf import Shelf, key_of
from quadrill.store.terms import Term
from quadrill.store.threads import Background

from ..algebra.columnar import Choice
from ..rows import Delta, Solution
from ..settings import StaticLimits
from ..windows.encoded import EngineTerms
from .table import Table
from .trigger_index import TriggerIndex

log = logging.getLogger("quadrill.continuous")

FORMAT = 2
_AT_LEAST, _EACH_S = 100, 5e-6
"""So many quads of the change log are looked at for a table, or for as long as evaluating it took."""


@dataclass(frozen=True, slots=True)
class KeptFacts:
    """What is known of rows on disk.

    ``read_s``: how long evaluating them took, in seconds; ``choice``: by which engine and why; ``mark``: the
    name of the history of the store.
    """

    since: int
    until: int
    read_s: float
    choice: Sequence[str] | None
    mark: str = ""


@dataclass(frozen=True, slots=True)
class _Copy:
    """The rows of a table at the moment of a checkpoint."""

    width: int
    facts: KeptFacts
    rows: Delta
    listed: Sequence[Solution] | None


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
        # What is being written: tables may let its terms go meanwhile.
        self._copies: dict[str, _Copy] = {}
        terms.dictionary.hold(lambda: (row for copy in [*self._copies.values()] for row in copy.rows))
        self._on_disk: dict[str, tuple[int, int]] = {}
        self._not_before = 0.0
        self._commits = RememberedCommits(store.commits_after)
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
        self, tables: Iterable[Table], version: int, evaluated: Mapping[str, int], *, at_end: bool = False
    ) -> None:
        """Write what has changed since it was written; forget tables that are gone.

        A restart begins with each query at the version of its last evaluation. Rows that are younger would
        not serve there: those from before stay on disk until the query was evaluated with these.

        ``version`` is that of the last turn, ``evaluated`` that of the last evaluation of each query.
        ``at_end``: nothing comes after this, everything is written now.
        """
        self._commits.forget()
        if self._writing is not None and not self._writing.done() and not at_end:
            return
        self.wait()
        self._copies = copies = {}
        notes: dict[str, KeptFacts] = {}
        keys: set[str] = set()
        may_write = at_end or time.monotonic() >= self._not_before
        for table in tables:
            is_ready = table.ready.is_set()
            if is_ready and table.took_s < self._limits.kept_s:
                continue
            key = _key(table)
            keys.add(key)
            if not is_ready or not table.live or table.behind is not None or table.problem is not None:
                continue
            choice = None if table.choice is None else (table.choice.engine, table.choice.reason)
            facts = KeptFacts(table.since, max(version, table.version), table.took_s, choice)
            since, until = self._on_disk.get(key, (None, None))
            needed = min((evaluated.get(each.name, version) for each in table.readers), default=version)
            if since == facts.since:
                if until != facts.until:
                    notes[key] = facts
            elif facts.since <= needed and may_write:
                copies[key] = _Copy(len(table.part.vars), facts, dict(table.rows), table.listed)
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

    def _write(self, copies: Mapping[str, _Copy], notes: Mapping[str, KeptFacts], keys: set[str]) -> None:
        began = time.monotonic()
        try:
            for key, copy in copies.items():
                self._write_rows(key, copy)
            now = time.monotonic()
            self._not_before = now + self._limits.kept_pauses * (now - began)
            marked = {key: facts for key, each in notes.items() if (facts := self._marked(each)) is not None}
            if self._shelf.note({key: asdict(facts) for key, facts in marked.items()}):
                self._on_disk.update({key: (facts.since, facts.until) for key, facts in marked.items()})
            self._shelf.keep_only(keys)
            for key in set(self._on_disk) - keys:
                del self._on_disk[key]
        except QuadrillError as error:
            log.warning("tables of static parts are not kept: %s", error.message)
        except Exception:
            log.exception("tables of static parts are not kept")
        finally:
            self._copies = {}

    def _write_rows(self, key: str, copy: _Copy) -> None:
        facts = self._marked(copy.facts)
        if facts is None:
            return
        if copy.listed is None:
            blobs = pack(copy.rows.items(), copy.width, 0, self._term)
        else:
            blobs = pack(((row, 1) for row in copy.listed), copy.width, None, _bound)
        if self._shelf.write(key, asdict(facts), blobs):
            self._on_disk[key] = (facts.since, facts.until)

    def _marked(self, facts: KeptFacts) -> KeptFacts | None:
        """With the name of the history; None when it has none."""
        mark = self._store.mark(facts.until)
        return None if mark is None else replace(facts, mark=mark)

    def _term(self, term_id: int) -> Term:
        # The dictionary's own mapping would remember the terms of inline ids, in the engine's way.
        return inline_term(term_id) if term_id < 0 else self._terms.dictionary.terms[term_id]

    # --- reading --------------------------------------------------------------------------------

    def find(self, table: Table) -> KeptFacts | None:
        """The rows of a table on disk, if they are of this store."""
        facts = self._shelf.facts(_key(table))
        if facts is None:
            return None
        try:
            found = KeptFacts(**facts)
        except TypeError as error:
            log.warning("the static part %s is read anew: what is on disk says %s", table.name, error)
            return None
        if self._store.mark(found.until) != found.mark:
            log.info("the static part %s is read anew: its rows on disk are of another history", table.name)
            return None
        return found

    def unchanged(self, table: Table, since: int, version: int, read_s: float) -> int:
        """The newest version up to ``version`` to which no commit behind ``since`` can have changed rows.

        Looking is given up where evaluating is less: that took ``read_s``.
        """
        if since >= version:
            return since
        index = TriggerIndex()
        index.add(table)
        reached, left = since, max(_AT_LEAST, read_s / _EACH_S)
        try:
            for commit in self._commits.between(since, version):
                left -= 1 + len(commit.added) + len(commit.removed)
                if left < 0 or index.touched(commit, 0):
                    break
                reached = commit.version
        except GoneError:
            return since
        return reached

    def load(self, table: Table, found: KeptFacts, version: int) -> bool:
        """Give a table its rows; False when they are damaged, which is told and they are forgotten."""
        key = _key(table)
        try:
            _take(table, PackedRows(self._shelf.read(key)), version, found)
        except Exception as error:
            log.warning("the static part %s is read anew: its rows on disk: %s", table.name, error)
            self._shelf.forget(key)
            self._on_disk.pop(key, None)
            return False
        table.choice = None if found.choice is None else Choice(*found.choice)
        self._on_disk[key] = (found.since, found.until)
        self.taken += 1
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
        dictionary = table.terms.dictionary
        with table.terms.planning:
            fresh.update(kept.rows(list(map(dictionary.texts.__getitem__, kept.texts)), 0))
            dictionary.pin(chain.from_iterable(fresh))
    table.begin_at(version, fresh, listed)
    table.since, table.from_disk = found.since, found.until


def _key(table: Table) -> str:
    return key_of(f"{FORMAT} {table.key}")


def _bound(term: Term | None) -> Term:
    assert term is not None
    return term
