"""The mirror: the store's quads as Parquet, one folder per predicate, for scans and large joins.

    mirror/meta.json        the version it reflects; rows, distinct subjects and objects of each predicate
    mirror/quads/k=7/…      columns s, o, g: terms in N-Triples syntax, as the store gives them; g may be null

It is made from a dump of the store, never from the files of a load, so its terms are the store's own and join
with them. What was committed since is in the change log and is laid over it when it is read.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pyoxigraph import Quad, RdfFormat

from ..errors import GoneError, StoreFormatError
from ..quads import QuadStore
from .direct import Advance
from .spark_load import LOG, run_child

COMPACT_QUADS = 200_000
"""With more changes than this beside it a mirror is made anew rather than read with them."""


@dataclass(frozen=True, slots=True)
class PredicateFacts:
    """Figures of one predicate; ``key`` names its folder, the distinct counts are estimates."""

    key: int
    rows: int
    subjects: int
    objects: int


@dataclass(frozen=True, slots=True)
class Mirror:
    """A mirror on disk."""

    folder: Path
    version: int
    predicates: dict[str, PredicateFacts]

    @classmethod
    def open(cls, folder: Path) -> Mirror | None:
        """The mirror of a folder; None when there is none.

        Raises: StoreFormatError when its description cannot be read.
        """
        try:
            described = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
            predicates = {
                # The child writes IRIs as <iri>.
                name[1:-1]: PredicateFacts(**facts)
                for name, facts in described["predicates"].items()
            }
            return cls(folder, described["version"], predicates)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise StoreFormatError(
                f"the mirror {folder} cannot be read: {error}",
                hint="remove the folder; the next load makes it anew",
            ) from error

    def changes(self, store: QuadStore) -> tuple[int, set[Quad], set[Quad]] | None:
        """The version of now, and the quads to add to and to remove from the mirror to reach it.

        None when the mirror cannot be brought there: a commit in between has no exact change set (a bulk
        load), is not in the change log any more, or there are more than `COMPACT_QUADS` changes.
        """
        added: set[Quad] = set()
        removed: set[Quad] = set()
        version = self.version
        try:
            for commit in store.commits_after(self.version):
                if not commit.exact:
                    return None
                gone, new = set(commit.removed), set(commit.added)
                removed = (removed | gone) - new
                added = (added - gone) | new
                version = commit.version
                if len(added) + len(removed) > COMPACT_QUADS:
                    return None
        except GoneError:
            return None
        return version, added, removed


def make_mirror(
    store: QuadStore,
    folder: Path,
    *,
    master: str | None = None,
    memory: str = "2g",
    advance: Advance | Callable[[int, int, int], None] = lambda rows, size, bad: None,
) -> Mirror:
    """Make the mirror of the store's present version, in the place of an older one.

    Raises:
        LoadError: Spark failed; the older mirror is kept.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="mirror-", dir=folder.parent) as work:
        dump = Path(work) / "dump.nq"
        with dump.open("wb") as file:
            version = store.dump(file, RdfFormat.N_QUADS)
        run_child(
            ["mirror", str(dump), str(folder.resolve()), str(version)],
            folder.parent / f"mirror-{LOG}",
            master,
            memory,
            advance,
        )
    mirror = Mirror.open(folder)
    assert mirror is not None
    return mirror
