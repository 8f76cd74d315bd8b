"""Rows of static parts on disk: of which versions they are, in which history of the store, and the writing.

An item says between which versions the rows were the same (``since``, ``until``) and names the history of the
store up to ``until`` (`QuadStore.mark`); of another history it is not found.
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
class RowsCopy:
    """Rows at a moment, as ids with how often each is there, or ``listed`` in their order."""

    width: int
    facts: KeptFacts
    rows: Mapping[tuple[int, ...], int]
    listed: Sequence[Solution] | None


class KeptRows:
    """Items by key. `put` is called by one thread, what is written by it is found by any.

    Attributes:
        shelf: where they are.
        on_disk: since when and until when the rows were the same, of items that were written or read.
        not_before: when something is written again, by the monotonic clock.
    """

    def __init__(
        self,
        shelf: BlobStore,
        store: QuadStore,
        dictionary: TermDictionary,
        background: Background,
        pauses: float,
    ) -> None:
        """Write in the background, and nothing for so many ``pauses`` as long as writing took behind it."""
        self.shelf = shelf
        self.on_disk: dict[str, tuple[int, int]] = {}
        self.not_before = 0.0
        self._store = store
        self._dictionary = dictionary
        self._background = background
        self._pauses = pauses
        # What is being written: its terms may be let go of meanwhile.
        self._copies: Mapping[str, RowsCopy] = {}
        dictionary.hold(lambda: (row for copy in [*self._copies.values()] for row in copy.rows))
        self._keys: set[str] | None = None
        self._writing: Future[None] | None = None

    @property
    def busy(self) -> bool:
        """True while something is being written."""
        return self._writing is not None and not self._writing.done()

    def put(self, copies: Mapping[str, RowsCopy], notes: Mapping[str, KeptFacts], keys: set[str]) -> None:
        """Begin to write items, and other facts of items that are there; those without a key of these go."""
        if copies or notes or keys != self._keys:
            self._copies, self._keys = copies, keys
            self._writing = self._background.do(self._write, copies, notes, keys)

    def wait(self) -> None:
        """Wait for what is being written."""
        if self._writing is not None:
            self._writing.result()

    def close(self) -> None:
        """Wait for what is being written and close the file."""
        self._background.close()
        self.shelf.close()

    def find(self, key: str, name: str) -> KeptFacts | None:
        """What is known of an item of this store; ``name`` is for the log."""
        facts = self.shelf.facts(key)
        if facts is None:
            return None
        try:
            found = KeptFacts(**facts)
        except TypeError as error:
            log.warning("the static part %s is read anew: what is on disk says %s", name, error)
            return None
        if self._store.log.mark(found.until) != found.mark:
            log.info("the static part %s is read anew: its rows on disk are of another history", name)
            return None
        return found

    def read(self, key: str) -> PackedRows:
        """The rows of an item; raises when they are damaged."""
        return PackedRows(self.shelf.read(key))

    def forget(self, key: str) -> None:
        """Delete an item that is of no use."""
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
        """With the name of the history; None when it has none."""
        mark = self._store.log.mark(facts.until)
        return None if mark is None else replace(facts, mark=mark)

    def _term(self, term_id: int) -> Term:
        # The dictionary's own mapping would remember the terms of inline ids, in the engine's way.
        return inline_term(term_id) if term_id < 0 else self._dictionary.terms[term_id]


def _bound(term: Term | None) -> Term:
    assert term is not None
    return term
