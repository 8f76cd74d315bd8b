"""Rows of static parts in the disk cache, with their range of store versions.

Each item of the cache holds the rows of one static part. The rows are valid from the store version ``since``
up to ``until``. The item also has a mark, which is a hash of the store's history at ``until``; an item is
ignored if its mark differs from the store's.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass, replace

from ..dictionary import TermDictionary, inline_term
from ..documents.packed_rows import PackedRows, pack
from ..errors import ReportedError
from ..quads.quad_store import QuadStore
from ..terms import Solution, Term
from ..threads import Background
from .blob_store import BlobStore

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class KeptFacts:
    """The metadata stored with the rows of a static part.

    The rows are valid from the store version ``since`` up to ``until``. The attribute ``read_s`` is the
    duration of the static part's evaluation in seconds. The attribute ``choice`` names the engine that
    evaluated the static part, and the reason for this engine. The attribute ``mark`` is a hash of the store's
    history at ``until``.
    """

    since: int
    until: int
    read_s: float
    choice: Sequence[str] | None
    mark: str = ""


@dataclass(frozen=True, slots=True)
class RowsCopy:
    """A snapshot of a static part's rows: id rows with multiplicities, or ordered solutions in ``listed``."""

    width: int
    facts: KeptFacts
    rows: Mapping[tuple[int, ...], int]
    listed: Sequence[Solution] | None


class KeptRows:
    """The cached rows of static parts by key; one thread calls `put`, any thread may call `find`.

    Attributes:
        shelf: the disk cache.
        on_disk: the range of store versions (since, until) of each item in the cache, by key.
        not_before: the monotonic time before which callers should not write again.
    """

    def __init__(
        self,
        shelf: BlobStore,
        store: QuadStore,
        dictionary: TermDictionary,
        background: Background,
        pauses: float,
    ) -> None:
        """Create the cache; `not_before` is ``pauses`` times a write's duration after the write."""
        self.shelf = shelf
        self.on_disk: dict[str, tuple[int, int]] = {}
        self.not_before = 0.0
        self._store = store
        self._dictionary = dictionary
        self._background = background
        self._pauses = pauses
        # While rows are written to the disk cache, the term dictionary must keep their terms.
        self._copies: Mapping[str, RowsCopy] = {}
        dictionary.hold(lambda: (row for copy in [*self._copies.values()] for row in copy.rows))
        self._keys: set[str] | None = None
        self._writing: Future[None] | None = None

    @property
    def busy(self) -> bool:
        """True while a background write of rows or metadata to the disk cache is queued or running."""
        return self._writing is not None and not self._writing.done()

    def put(self, copies: Mapping[str, RowsCopy], notes: Mapping[str, KeptFacts], keys: set[str]) -> None:
        """Start to write rows and metadata to the disk cache; delete items whose key is not in ``keys``."""
        if copies or notes or keys != self._keys:
            self._copies, self._keys = copies, keys
            self._writing = self._background.do(self._write, copies, notes, keys)

    def wait(self) -> None:
        """Wait until the background write to the disk cache ends, if one is running."""
        if self._writing is not None:
            self._writing.result()

    def close(self) -> None:
        """Wait for the running background write to the disk cache, and close the cache file."""
        self._background.close()
        self.shelf.close()

    def find(self, key: str, name: str) -> KeptFacts | None:
        """Return the metadata of cached rows; None if they are missing or of another history of the store.

        The argument ``name`` is the name of the static part in log lines.
        """
        facts = self.shelf.facts(key)
        if facts is None:
            return None
        try:
            found = KeptFacts(**facts)
        except TypeError as error:
            log.warning("the static part %s is read again: its metadata on disk is invalid: %s", name, error)
            return None
        if self._store.log.mark(found.until) != found.mark:
            log.info("the static part %s is read again: its rows on disk are of another history", name)
            return None
        return found

    def read(self, key: str) -> PackedRows:
        """Return the cached rows with this key; raises StoreFormatError or ValueError for damaged rows."""
        return PackedRows(self.shelf.read(key))

    def forget(self, key: str) -> None:
        """Delete the item with this key from the cache."""
        self.shelf.forget(key)
        self.on_disk.pop(key, None)

    def _write(self, copies: Mapping[str, RowsCopy], notes: Mapping[str, KeptFacts], keys: set[str]) -> None:
        began = time.monotonic()
        try:
            for key, copy in copies.items():
                self._write_rows(key, copy)
            now = time.monotonic()
            self.not_before = now + self._pauses * (now - began)
            marked = {key: facts for key, each in notes.items() if (facts := self._marked(each)) is not None}
            if self.shelf.note({key: asdict(facts) for key, facts in marked.items()}):
                self.on_disk.update({key: (facts.since, facts.until) for key, facts in marked.items()})
            self.shelf.keep_only(keys)
            for key in set(self.on_disk) - keys:
                del self.on_disk[key]
        except ReportedError as error:
            log.warning("tables of static parts are not kept: %s", error.message)
        except Exception:
            log.exception("tables of static parts are not kept")
        finally:
            self._copies = {}

    def _write_rows(self, key: str, copy: RowsCopy) -> None:
        facts = self._marked(copy.facts)
        if facts is None:
            return
        if copy.listed is None:
            blobs = pack(copy.rows.items(), copy.width, 0, self._term)
        else:
            blobs = pack(((row, 1) for row in copy.listed), copy.width, None, _bound)
        if self.shelf.write(key, asdict(facts), blobs):
            self.on_disk[key] = (facts.since, facts.until)

    def _marked(self, facts: KeptFacts) -> KeptFacts | None:
        """Return rows' metadata with the mark of the store's history; None if the change log has no mark."""
        mark = self._store.log.mark(facts.until)
        return None if mark is None else replace(facts, mark=mark)

    def _term(self, term_id: int) -> Term:
        # An inline id contains its literal and is converted without the dictionary, which would store the
        # term.
        return inline_term(term_id) if term_id < 0 else self._dictionary.terms[term_id]


def _bound(term: Term | None) -> Term:
    assert term is not None
    return term
