"""The mirror: the store's quads as Parquet, one folder per predicate, for scans and large joins.

    mirror/meta.json                the version it reflects, its folder, the figures of each predicate
    mirror/quads-12-3f9c…/k=7/…     columns s, o, g: terms in N-Triples syntax, as the store gives them (g may
                                    be null), and the typed columns of `typed`

A new mirror is written beside the old one; replacing meta.json is the swap, so a reader finds the one or the
other. The folder before stays until the next swap, for those that still read it.

It is made from a dump of the store, never from the files of a load, so its terms are the store's own and join
with them. What was committed since is in the change log and is laid over it when it is read; compaction
writes it into the files, see `upkeep`.
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
"""Above this number of changed quads since its version, a mirror is written completely instead of merged."""


@dataclass(frozen=True, slots=True)
class PredicateFacts:
    """Statistics of one predicate in the mirror.

    Attributes:
        key: names its folder.
        rows: its quads.
        subjects: how many different subjects, estimated.
        objects: how many different objects, estimated.
        kinds: what its objects are, see `typed`.
    """

    key: int
    rows: int
    subjects: int
    objects: int
    kinds: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Mirror:
    """A mirror on disk; ``quads`` is its present folder of Parquet files.

    ``mark`` names the history of the store up to ``version``: a folder that lost commits gives their versions
    to others.
    """

    folder: Path
    quads: Path
    version: int
    predicates: dict[str, PredicateFacts]
    mark: str | None = None

    @property
    def is_whole(self) -> bool:
        """False if the files may be deleted, because two newer mirrors exist."""
        return self.quads.is_dir()

    @classmethod
    def open(cls, folder: Path) -> Mirror | None:
        """The mirror of a folder; None when there is none.

        Raises: StoreFormatError when its description cannot be read.
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
                hint="remove the folder; the next load makes it anew",
            ) from error

    def is_of(self, store: QuadStore) -> bool:
        """False when it is of another history than the store's, as far as the change log can tell."""
        mark = store.log.mark(self.version)
        return mark is None or self.mark is None or mark == self.mark

    def changes(
        self, store: QuadStore, version: int | None = None
    ) -> tuple[int, set[Quad], set[Quad]] | None:
        """A version of the store, and the quads to add to and to remove from the mirror to reach it.

        Args:
            store: the store.
            version: the version to reach; None is the newest.

        Returns:
            None when the mirror cannot be brought there: it is newer or of another history, a commit in
            between has no exact change set (a bulk load), is not in the change log any more, or there are
            more than `COMPACT_QUADS` changes.
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
                # What is added again after it was removed is in the files, and the other way round.
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
    """Make a folder of Parquet files the mirror, once they are complete.

    Args:
        folder: the mirror's.
        quads: the name of the folder of files, in it. It may be the present one, for another version.
        version: of the store.
        predicates: the figures by predicate.
        mark: the name of the store's history up to the version.
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
            # Whoever still reads it finds all files or no folder, see `Mirror.is_whole`.
            gone = folder / f"quads-gone-{secrets.token_hex(4)}"
            with contextlib.suppress(OSError):
                each.rename(gone)
                shutil.rmtree(gone, ignore_errors=True)
