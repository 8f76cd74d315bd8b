"""Many small tables on disk: a start evaluates none of them, and looks at the change log once for all."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from quadrill.continuous.clock import ManualClock
from quadrill.continuous.settings import StaticLimits
from quadrill.continuous.static.stored_tables import KeptTables
from quadrill.continuous.static.table import Table
from quadrill.continuous.static.table_reading import Recomputer
from quadrill.store.logs.change_log import SqliteChangeLog
from quadrill.store.quads.options import StoreOptions
from quadrill.store.quads.quad_store import QuadStore

from ..test_recovery import Life, P
from .test_replay import update

PARTS = 40
LIMITS = StaticLimits(kept_s=0.0, kept_pauses=0)
"""All tables are worth to be kept."""


class Reads:
    """What was evaluated, and how often a page of the change log was read."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.evaluated: list[str] = []
        self.pages = 0
        read, page = Recomputer.read, SqliteChangeLog._page

        def reading(recomputer: Recomputer, tables: Sequence[Table], *, limited: bool = False) -> Any:
            self.evaluated.extend(table.name for table in tables)
            return read(recomputer, tables, limited=limited)

        def paging(log: SqliteChangeLog, version: int, count: int) -> Any:
            self.pages += 1
            return page(log, version, count)

        patch.setattr(Recomputer, "read", reading)
        patch.setattr(SqliteChangeLog, "_page", paging)

    def forget(self) -> None:
        self.evaluated.clear()
        self.pages = 0


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Reads:
    return Reads(monkeypatch)


def text(number: int) -> str:
    return f"SELECT ?x ?k {{ STREAM :s [RANGE 10s] {{ ?x :seen ?v }} ?x :in :room{number} ; :kind ?k }}"


def begun(folder: Path, parts: int = PARTS) -> Life:
    """Queries whose static parts differ in a constant, each with one row, and a checkpoint behind them."""
    life = Life(folder, ManualClock(0), static_limits=LIMITS)
    rows = (f":x{n} :in :room{n} ; :kind :kind{n % 7} ." for n in range(parts))
    update(life, f"INSERT DATA {{ {' '.join(rows)} }}")
    for number in range(parts):
        life.register(f"q{number}", text(number))
    life.push(1, *(f"x{number}" for number in range(parts)))
    life.checkpoint()
    return life


def expected(life: Life, parts: int = PARTS) -> dict[str, set[tuple[str, str]]]:
    """The answers by the store's own evaluation; every element is still in its window."""
    found = {}
    for number in range(parts):
        pattern = f"?x :in :room{number} ; :kind ?k . FILTER(STRSTARTS(STR(?x), 'http://example.org/x'))"
        with life.store.reader.query(f"{P} SELECT ?x ?k {{ {pattern} }}") as result:
            found[f"q{number}"] = {(str(x), str(k)) for x, k in result.rows()}
    return found


def answers(life: Life) -> dict[str, set[tuple[str, str]]]:
    return {
        name: {(f"<{row['x']['value']}>", f"<{row['k']['value']}>") for row in each["results"]["bindings"]}
        for name, each in life.answers().items()
    }


def test_a_start_evaluates_none_of_many_parts_and_names_the_history_once(
    tmp_path: Path, reads: Reads
) -> None:
    pages = []
    for parts in (5, PARTS):
        life = begun(tmp_path / f"d{parts}", parts)
        reads.forget()
        life = life.crash()
        assert reads.evaluated == []
        assert answers(life) == expected(life, parts)
        pages.append(reads.pages)
        update(life, "DELETE DATA { :x3 :in :room3 } ; INSERT DATA { :x3 :in :room2 }")
        assert answers(life) == expected(life, parts)
        life.stop()
    assert pages[0] == pages[1]


def test_what_a_start_evaluated_is_on_disk_behind_it(tmp_path: Path, reads: Reads) -> None:
    life = begun(tmp_path / "d")
    life.stop()
    for kept in (life.folder / "engine").glob("tables.sqlite*"):
        kept.unlink()
    reads.forget()
    life = Life(life.folder, life.clock, static_limits=LIMITS)
    assert len(reads.evaluated) == PARTS
    reads.forget()
    # Nothing was pushed and no checkpoint is due.
    life = life.crash()
    assert reads.evaluated == []
    assert answers(life) == expected(life)
    life.stop()


def test_commits_behind_what_is_on_disk_are_read_once_for_all_parts(
    tmp_path: Path, reads: Reads, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = []
    for parts in (5, PARTS):
        life = begun(tmp_path / f"d{parts}", parts)
        with monkeypatch.context() as patch:
            patch.setattr(KeptTables, "keep", lambda *_, **__: None)
            for number in range(4):
                update(life, f"INSERT DATA {{ :x{number} :other {number} }}")
            update(life, "INSERT DATA { :x1 :in :room0 }")
            life.push(2, "x1")
            life.checkpoint()
            reads.forget()
            life = life.crash()
        # The last commit touches one part, which alone is evaluated.
        assert len(reads.evaluated) == 1
        assert answers(life) == expected(life, parts)
        pages.append(reads.pages)
        life.stop()
    assert pages[1] <= pages[0] + 2


def test_behind_a_large_commit_small_parts_are_evaluated_instead(
    tmp_path: Path, reads: Reads, monkeypatch: pytest.MonkeyPatch
) -> None:
    life = begun(tmp_path / "d", 5)
    with monkeypatch.context() as patch:
        patch.setattr(KeptTables, "keep", lambda *_, **__: None)
        update(life, f"INSERT DATA {{ {' '.join(f':x1 :other {n} .' for n in range(20_000))} }}")
        life.push(2, "x1")
        life.checkpoint()
        reads.forget()
        life = life.crash()
    assert len(reads.evaluated) == 5
    assert answers(life) == expected(life, 5)
    life.stop()


def test_what_was_changed_while_the_server_was_down_is_in_the_answers(tmp_path: Path, reads: Reads) -> None:
    life = begun(tmp_path / "d")
    life.stop()
    with QuadStore.open(life.folder, StoreOptions(clock_ms=life.clock.now_ms)) as store:
        store.writer.update(f"{P} DELETE DATA {{ :x1 :kind :kind1 }} ; INSERT DATA {{ :x2 :in :room5 }}")
        store.writer.update(f"{P} INSERT DATA {{ :x1 :kind :kind9 }}")
    reads.forget()
    life = Life(life.folder, life.clock, static_limits=LIMITS)
    # The rows were taken as they were at the stop; what came since is a change of them.
    assert reads.evaluated == []
    assert answers(life) == expected(life)
    life.stop()
    reads.forget()
    life = Life(life.folder, life.clock, static_limits=LIMITS)
    assert (reads.evaluated, answers(life)) == ([], expected(life))
    life.stop()


def test_rows_of_later_than_a_restored_backup_are_not_taken(tmp_path: Path, reads: Reads) -> None:
    life = begun(tmp_path / "d")
    backup = life.copy(tmp_path / "backup")
    update(life, "INSERT DATA { :x2 :in :room5 . :x1 :kind :kind9 }")
    life.push(2, "x1")
    life.stop()
    # The quads of the backup beside the tables of today.
    for file in (backup / "engine").glob("tables.sqlite*"):
        file.unlink()
    for file in (life.folder / "engine").glob("tables.sqlite*"):
        shutil.copy(file, backup / "engine")
    reads.forget()
    life = Life(backup, life.clock, static_limits=LIMITS)
    # They name a history that the backup has not.
    assert len(reads.evaluated) == PARTS
    assert answers(life) == expected(life)
    update(life, "INSERT DATA { :x2 :in :room6 }")
    assert answers(life) == expected(life)
    life.stop()


def test_one_damaged_table_of_many_is_evaluated_alone(tmp_path: Path, reads: Reads) -> None:
    life = begun(tmp_path / "d")
    life.stop()
    with sqlite3.connect(life.folder / "engine" / "tables.sqlite") as db:
        (key,) = db.execute("SELECT key FROM items ORDER BY key LIMIT 1").fetchone()
        db.execute("UPDATE parts SET data = zeroblob(length(data)) WHERE key = ? AND place = 2", (key,))
    db.close()
    reads.forget()
    life = Life(life.folder, life.clock, static_limits=LIMITS)
    assert len(reads.evaluated) == 1
    assert answers(life) == expected(life)
    life.stop()


def test_tables_of_another_release_are_neither_taken_nor_left(tmp_path: Path, reads: Reads) -> None:
    life = begun(tmp_path / "d", 5)
    life.stop()
    file = life.folder / "engine" / "tables.sqlite"
    with sqlite3.connect(file) as db:
        # The release is part of the key.
        for table in ("items", "parts"):
            db.execute(f"UPDATE {table} SET key = 'other' || key")
    db.close()
    reads.forget()
    life = Life(life.folder, life.clock, static_limits=LIMITS)
    assert len(reads.evaluated) == 5
    assert answers(life) == expected(life, 5)
    life.stop()
    with sqlite3.connect(file) as db:
        assert db.execute("SELECT count(*) FROM items WHERE key LIKE 'other%'").fetchone() == (0,)
        assert db.execute("SELECT count(*) FROM items").fetchone() == (5,)
    db.close()
