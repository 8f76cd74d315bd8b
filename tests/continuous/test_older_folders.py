"""Data folders of earlier releases open with windows, feeds and streams, and continue as they did there.

``tests/data/folders/RELEASE.tar.xz`` was written by that release, by
``python -m tests.continuous.test_older_folders tests/data/folders/RELEASE.tar.xz``. It holds two folders, one
that was closed and one of a process that was killed after a checkpoint, and for each the output of that
release after it opened a copy of the folder. Commit 30ff0e66 is the oldest whose folders are read.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tarfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pyoxigraph import NamedNode

from quadrill.app.describing.queries import describe
from quadrill.app.describing.streams import describe_streams
from quadrill.continuous.clock import ManualClock
from quadrill.continuous.streams.push_call import PushCall
from quadrill.store.errors import OlderFormatError
from quadrill.store.logs.checkpoint_file import read_checkpoint, write_checkpoint
from quadrill.store.registry import RegistryFormatError

from .test_recovery import E, Life, comparable

FOLDERS = sorted((Path(__file__).parent.parent / "data" / "folders").glob("*.tar.xz"))
KINDS = ("closed", "killed")
ON_S = "FROM NAMED WINDOW :w ON :s"
ROWS = {"output": "changes"}
STATIC = (
    'INSERT DATA { :a :name "A", "1" . :b :name "B" . :c :name "C" ; :place :hall . :a :place :hall .'
    " :b :place :yard GRAPH :g { :a :rank 1 . :b :rank 2 } }"
)
QUERIES: dict[str, tuple[str, dict[str, Any]]] = {
    "now": ("SELECT ?x ?v WHERE { STREAM :s [NOW] { ?x :seen ?v } }", ROWS),
    "range": ("SELECT ?x ?v WHERE { STREAM :s [RANGE 5s] { ?x :seen ?v } }", {}),
    "range-too": ("SELECT ?v WHERE { STREAM :s [RANGE 5s] { ?x :seen ?v } }", ROWS),
    "open": ("SELECT ?v WHERE { STREAM :s [RANGE 4s] { ?x :seen ?v } }", ROWS | {"bounds": "open-closed"}),
    "triples": ("SELECT ?x ?v WHERE { STREAM :s [TRIPLES 3] { ?x :seen ?v } }", ROWS),
    "batch": (
        f"REGISTER QUERY batch AS PREFIX : <{E}> SELECT ?x ?v FROM STREAM :s [RANGE TRIPLES 3] "
        "WHERE { ?x :seen ?v }",
        ROWS,
    ),
    "elements": (f"SELECT ?x ?v {ON_S} [ELEMENTS 3 STEP 2] WHERE {{ WINDOW :w {{ ?x :seen ?v }} }}", ROWS),
    "grid": (f"SELECT ?x ?v {ON_S} [RANGE 4s STEP 2s] WHERE {{ WINDOW :w {{ ?x :seen ?v }} }}", ROWS),
    "grid-open": (
        f"SELECT (COUNT(*) AS ?n) {ON_S} [RANGE 4s STEP 3s] WHERE {{ WINDOW :w {{ ?x :seen ?v }} }}",
        ROWS | {"bounds": "open-closed"},
    ),
    "periodic": (
        "SELECT ?x ?v WHERE { STREAM :s [RANGE 3s] { ?x :seen ?v } }",
        {"output": "rstream", "report": {"periodic": "2s"}},
    ),
    "all": ("SELECT ?x (COUNT(?v) AS ?n) WHERE { STREAM :s [ALL] { ?x :seen ?v } } GROUP BY ?x", ROWS),
    "figures": (
        "SELECT (SUM(?r) AS ?sum) (MIN(?r) AS ?least) (SAMPLE(?n) AS ?some) WHERE"
        " { STREAM :s [RANGE 6s] { ?x :seen ?v } ?x :name ?n GRAPH :g { ?x :rank ?r } }",
        ROWS,
    ),
    "ask": ("ASK { STREAM :s [RANGE 3s] { :a :seen ?v } }", {}),
    "made": (
        f"REGISTER STREAM <{E}made> AS CONSTRUCT {{ ?x <{E}again> ?v }} "
        f"FROM NAMED WINDOW <w> ON <{E}s> [RANGE 3s STEP 3s] WHERE {{ WINDOW <w> {{ ?x <{E}seen> ?v }} }}",
        {},
    ),
    "reads": ("SELECT ?x ?v WHERE { STREAM :made [RANGE 6s] { ?x :again ?v } }", {}),
    "constructs": ("CONSTRUCT { ?x :was ?v } WHERE { STREAM :s [RANGE 5s] { ?x :seen ?v } }", ROWS),
    "times": (
        f"REGISTER QUERY times AS PREFIX : <{E}> SELECT ?x ?n (timestamp(?w) AS ?t) "
        "FROM STREAM :s [RANGE 6s STEP 2s] FROM STREAM :made [RANGE 4s STEP 2s] "
        "WHERE { ?x :seen|:again ?v . ?x :seen ?w OPTIONAL { ?x :name ?n } }",
        ROWS,
    ),
    "both": (
        "SELECT ?x ?v ?w WHERE { STREAM :s [RANGE 10s] { ?x :seen ?v } "
        "STREAM :t [RANGE 10s] { ?x :seen ?w } }",
        ROWS,
    ),
    "recomputed": (
        "SELECT ?x ?v WHERE { STREAM :s [RANGE 5s] { ?x :seen ?v } "
        "FILTER EXISTS { ?x :name ?n FILTER EXISTS { ?y :name ?n FILTER(?v != ?n) } } }",
        ROWS,
    ),
    "static": ("SELECT ?x ?n WHERE { ?x :name ?n }", ROWS),
    "view": ("CONSTRUCT { ?x :in ?v } INTO GRAPH :now WHERE { STREAM :s [RANGE 5s] { ?x :seen ?v } }", {}),
    "lookup": (
        "SELECT ?x ?p WHERE { STREAM :s [RANGE 5s] { ?x :seen ?v } ?x :place ?p }",
        ROWS | {"static_tables": "lookup"},
    ),
    "paused": ("SELECT ?x ?v WHERE { STREAM :s [RANGE 20s] { ?x :seen ?v } }", ROWS),
    **{
        f"member-{place}": (
            f"SELECT ?x WHERE {{ STREAM :s [RANGE 7s] {{ ?x :seen ?v }} ?x :place :{place} }}",
            ROWS,
        )
        for place in ("hall", "yard", "roof")
    },
}  # fmt: skip


def open_folder(folder: Path, now_ms: int) -> Life:
    return Life(folder, ManualClock(now_ms), idle_timeout_ms=0)


def push(life: Life, stream: str, at: int, *names: str, **options: Any) -> None:
    body = "".join(f'<{E}{name}> <{E}seen> "{at // 1_000}" .\n' for name in names)
    life.clock.advance(7)
    life.engine.streams.push(PushCall(E + stream, "application/n-triples", at=at, **options), body.encode())


def fill(life: Life) -> None:
    """All kinds of windows, elements that wait, late ones, events in all feeds."""
    life.store.writer.update(f"PREFIX : <{E}> {STATIC}")
    life.engine.streams.declare(E + "s", lateness=0)
    life.engine.streams.declare(E + "t", lateness="1s")
    for name, (text, options) in QUERIES.items():
        life.register(name, text, **options)
    push(life, "t", 900, "a")
    push(life, "s", 1_000, "a", "b", idempotency_key="first")
    push(life, "t", 2_500, "a", "c")
    push(life, "s", 2_000, "a")
    push(life, "s", 500, "late")
    life.store.writer.update(f'PREFIX : <{E}> INSERT DATA {{ :d :name "D" ; :place :yard }}')
    push(life, "s", 4_000, "c", "d")
    push(life, "s", 6_500, "b")
    push(life, "s", 6_500, "b", "a")
    life.engine.queries.patch("paused", {"state": "paused"})
    push(life, "s", 8_100, "d")


def fill_more(life: Life) -> None:
    """What stands in the journal behind the checkpoint."""
    push(life, "s", 9_000, "a", "c")
    life.store.writer.update(f'PREFIX : <{E}> DELETE DATA {{ :b :name "B" }}')
    life.register("late", "SELECT (COUNT(*) AS ?n) WHERE { STREAM :s [RANGE 2s] { ?x :seen ?v } }")
    push(life, "t", 5_000, "b")


def go_on(life: Life) -> dict[str, Any]:
    """What is told from now on."""
    found: dict[str, Any] = {"opened": state(life)}
    push(life, "s", 1_000, "a", "b", idempotency_key="first")
    push(life, "t", 9_500, "a", "d")
    push(life, "s", 10_500, "b")
    push(life, "s", 10_000, "late")
    life.store.writer.update(
        f'PREFIX : <{E}> INSERT DATA {{ :a :place :roof }} ; DELETE DATA {{ :c :name "C" }}'
    )
    push(life, "s", 11_200, "a", "c")
    life.engine.queries.patch("paused", {"state": "running"})
    found["going on"] = state(life)
    push(life, "s", 17_000, "d")
    push(life, "t", 19_000, "d")
    life.engine.streams.heartbeat(E + "s", 30_000)
    life.register("new", "SELECT ?x WHERE { STREAM :s [RANGE 2s] { ?x :seen ?v } }")
    push(life, "s", 40_000, "a")
    found["at last"] = state(life)
    return json.loads(json.dumps(found))  # type: ignore[no-any-return]


_ADDED = ("state", "early_count")
"""Members of streams that no release of `FOLDERS` has."""


def state(life: Life) -> dict[str, Any]:
    """All that users see of queries and streams."""
    return {
        "told": comparable(life.told()),
        "answers": life.answers(),
        "counters": {name: describe(life.engine, name)["counters"] for name in sorted(life.told())},
        "streams": [
            {member: value for member, value in stream.items() if member != "silent_ms"}
            for stream in describe_streams(life.engine)
        ],
        "dead letters": life.engine.streams.dead_letters(E + "s"),
        "view": sorted(str(quad) for quad in life.store.reader.quads_for_pattern(graph=NamedNode(E + "now"))),
    }


def record(target: Path) -> None:
    """Write the folders of this release, and what it tells when it goes on."""
    work = target.parent / "recorded"
    for kind in KINDS:
        subprocess.run([sys.executable, "-m", __spec__.name, str(work), kind], check=kind == "closed")
        shutil.copytree(work / kind, work / "copy")
        life = open_folder(work / "copy", 1_000_000)
        (work / f"{kind}.json").write_text(json.dumps(go_on(life), separators=(",", ":")))
        life.stop()
        shutil.rmtree(work / "copy")
    with tarfile.open(target, "w:xz") as archive:
        for each in sorted(work.rglob("*")):
            if each.is_file() and each.name != "LOG":
                archive.add(each, each.relative_to(work))
    shutil.rmtree(work)


def make(folder: Path, kind: str) -> None:
    """In a process of its own: one folder."""
    folder.mkdir(parents=True, exist_ok=True)
    life = open_folder(folder / kind, 10_000)
    fill(life)
    if kind == "killed":
        life.checkpoint()
        fill_more(life)
        os.kill(os.getpid(), signal.SIGKILL)
    life.stop()


def unpacked(archive: Path, folder: Path) -> Path:
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    return folder


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("archive", FOLDERS, ids=lambda each: each.name)
def test_a_folder_of_an_earlier_release_continues_as_there(archive: Path, kind: str, tmp_path: Path) -> None:
    life = open_folder(unpacked(archive, tmp_path) / kind, 1_000_000)
    assert life.engine.recovery is not None and life.engine.recovery.report["problem"] is None
    told, expected = go_on(life), json.loads((tmp_path / f"{kind}.json").read_text())
    life.stop()
    for moment in told.values():
        for stream in moment["streams"]:
            added = {member: stream.pop(member) for member in _ADDED}
            assert added["early_count"] == 0 and added["state"] in ("empty", "active", "idle")
    assert told == expected


def old_registry(folder: Path) -> None:
    with closing(sqlite3.connect(folder / "registry.sqlite")) as database:
        database.execute("UPDATE alembic_version SET version_num = '0005'")
        database.commit()


def old_change_log(folder: Path) -> None:
    with closing(sqlite3.connect(folder / "changes.sqlite")) as database:
        database.execute("DELETE FROM meta WHERE name IN ('check', 'earliest')")
        database.commit()


def old_events(folder: Path) -> None:
    with closing(sqlite3.connect(folder / "engine" / "results.sqlite")) as database:
        database.execute("ALTER TABLE events DROP COLUMN digest")
        database.commit()


def old_checkpoint(folder: Path) -> None:
    path = folder / "engine" / "checkpoint"
    found = read_checkpoint(path)
    assert found is not None
    write_checkpoint(path, found._replace(version=6, packed=bytes(found.packed), quads=bytes(found.quads)))


@pytest.mark.parametrize("aged", [old_registry, old_change_log, old_events, old_checkpoint])
def test_an_older_folder_is_refused_with_the_commit_that_exports_it(
    aged: Callable[[Path], None], tmp_path: Path
) -> None:
    folder = unpacked(FOLDERS[0], tmp_path) / "closed"
    aged(folder)
    for _ in range(2):
        with pytest.raises((OlderFormatError, RegistryFormatError)) as caught:
            open_folder(folder, 1_000_000)
        assert "was written before commit 30ff0e66" in str(caught.value)
        for part in ("commit 30ff0e66 still exports it", "quadrill export --data", "quadrill load"):
            assert part in str(caught.value.hint)


if __name__ == "__main__":
    if len(sys.argv) > 2:
        make(Path(sys.argv[1]), sys.argv[2])
    else:
        record(Path(sys.argv[1]))
