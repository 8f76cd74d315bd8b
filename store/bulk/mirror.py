"""The mirror: a copy of the store in Parquet files, one folder per predicate, for large scans and joins.

    mirror/meta.json                the store version of the mirror, its current folder of Parquet files, and
                                    statistics of each predicate
    mirror/quads-12-3f9c…/k=7/…     the columns s, o and g with terms in N-Triples syntax (g may be null), and
                                    the typed columns of `typed`

A new mirror is written to a new folder, and replacing meta.json switches readers to this folder. The previous
folder of Parquet files is deleted at the next switch, because running queries may still read it.

The mirror is made from a dump of the store instead of the source files of a load, so its terms are in the
canonical form of the store. A query on the mirror reads the Parquet files and adds the changes of later
commits from the change log. Compaction writes the changes of later commits to the mirror's Parquet files, see
`upkeep`.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

from pyoxigraph import Quad

from ..errors import GoneError, StoreFormatError
from ..folder import write_whole
from ..quads.quad_store import QuadStore

COMPACT_QUADS = 200_000
"""Maximum number of quads changed since the mirror's version; with more, the mirror is written completely."""


@dataclass(frozen=True, slots=True)
class PredicateFacts:
    """Statistics of one predicate in the Parquet mirror of the store.

    Attributes:
        key: the number in the name of the predicate's folder.
        rows: the number of quads with the predicate.
        subjects: the estimated number of distinct subjects.
        objects: the estimated number of distinct objects.
        kinds: the kinds of the objects, for instance ``iri`` or ``integer``, see `typed`.
    """

    key: int
    rows: int
    subjects: int
    objects: int
    kinds: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Mirror:
    """A mirror on disk; ``quads`` is its current folder of Parquet files.

    The mirror's ``mark`` is a hash of the store's history at ``version``. The version alone does not identify
    the history, because a store that lost commits uses their version numbers again.
    """

    folder: Path
    quads: Path
    version: int
    predicates: dict[str, PredicateFacts]
    mark: str | None = None

    @property
    def is_whole(self) -> bool:
        """False if the Parquet files of this mirror have been deleted, because two newer mirrors exist."""
        return self.quads.is_dir()

    @classmethod
    def open(cls, folder: Path) -> Mirror | None:
        """Open the mirror in a folder; return None if the folder contains no mirror.

        Raises:
            StoreFormatError: the file meta.json of the mirror cannot be read.
        """
        try:
            described = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
            predicates = {
                name[1:-1]: PredicateFacts(**facts | {"kinds": frozenset(facts["kinds"])})
                for name, facts in described["predicates"].items()
            }
            quads, version = folder / described["quads"], described["version"]
            return cls(folder, quads, version, predicates, described.get("mark"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise StoreFormatError(
                f"the mirror {folder} cannot be read: {error}",
                hint="remove the folder; the next load writes it again",
            ) from error

    def is_of(self, store: QuadStore) -> bool:
        """Return False if the change log shows that this mirror belongs to another history of the store."""
        mark = store.log.mark(self.version)
        return mark is None or self.mark is None or mark == self.mark

    def changes(
        self, store: QuadStore, version: int | None = None
    ) -> tuple[int, set[Quad], set[Quad]] | None:
        """Return a version of the store, and the quads added and removed between the mirror and this version.

        Args:
            store: the store of the mirror.
            version: the version of the store to reach; None is the newest version.

        Returns:
            None if the changes are unknown or too many. The changes are unknown if the mirror is newer than
            ``version`` or belongs to another history of the store, or if a commit in between was a bulk load
            or is no longer in the change log. More than `COMPACT_QUADS` changed quads are too many.
        """
        if (version is not None and version < self.version) or not self.is_of(store):
            return None
        added: set[Quad] = set()
        removed: set[Quad] = set()
        reached = self.version
        try:
            for commit in store.commits_after(self.version):
                if version is not None and commit.version > version:
                    break
                if not commit.exact:
                    return None
                gone, new = set(commit.removed), set(commit.added)
                # A quad that was removed and added again is in the mirror's files, so it is not a change. A
                # quad that was added and removed again is not a change either.
                added, removed = (added - gone) | (new - removed), (removed - new) | (gone - added)
                reached = commit.version
                if len(added) + len(removed) > COMPACT_QUADS:
                    return None
        except GoneError:
            return None
        if version is not None and reached != version:
            return None
        return reached, added, removed


def swap_in(
    folder: Path, quads: str, version: int, predicates: dict[str, PredicateFacts], mark: str | None = None
) -> None:
    """Make a complete folder of Parquet files the current content of the mirror.

    Args:
        folder: the folder of the mirror.
        quads: the name of the folder of Parquet files within ``folder``; the current name if only the version
            changes.
        version: the version of the store that the files reflect.
        predicates: the statistics of each predicate.
        mark: the mark of the store's history at the version.
    """
    before = Mirror.open(folder)
    described = {
        "version": version,
        "mark": mark,
        "quads": quads,
        "predicates": {
            f"<{name}>": asdict(facts) | {"kinds": sorted(facts.kinds)} for name, facts in predicates.items()
        },
    }
    write_whole(folder / "meta.json", json.dumps(described).encode())
    if before is not None and before.quads.name == quads:
        return
    kept = {quads, before.quads.name if before else quads}
    for each in folder.iterdir():
        if each.name.startswith("quads") and each.name not in kept:
            # The folder of Parquet files is renamed before its deletion, so that readers find all files or no
            # folder (see `Mirror.is_whole`).
            gone = folder / f"quads-gone-{secrets.token_hex(4)}"
            with contextlib.suppress(OSError):
                each.rename(gone)
                shutil.rmtree(gone, ignore_errors=True)
