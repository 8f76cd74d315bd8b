"""A full disk under each log: nothing is half done, the error says what is wrong, and space mends it."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from quadrill.app.describing.figures import journal_state
from quadrill.continuous.clock import ManualClock
from quadrill.store.errors import StoreUnwritableError
from quadrill.store.logs import checkpoint_file
from tests.continuous.test_recovery import E, Life, P

from .engines import tick

S = E + "s"
LONG = "x" * 20_000


@pytest.fixture
def life(tmp_path: Path) -> Iterator[Life]:
    life = Life(tmp_path / "d", ManualClock(1_000_000))
    life.register("seen")
    life.push(1_000, "a")
    yield life
    life.stop()


@contextmanager
def no_space(database: sqlite3.Connection) -> Iterator[None]:
    """SQLite finds no page beyond those that its file has: it says that the disk is full."""
    (pages,) = database.execute("PRAGMA page_count").fetchone()
    (before,) = database.execute("PRAGMA max_page_count").fetchone()
    database.execute(f"PRAGMA max_page_count={pages}")
    yield
    database.execute(f"PRAGMA max_page_count={before}")


def ids(life: Life) -> list[int]:
    return [number for number, _, _ in life.told()["seen"]]


def test_under_the_result_log_results_wait_and_the_server_is_read_only(life: Life) -> None:
    subscription = life.engine.queries.feed("seen").subscribe()
    with no_space(life.journal.results._db), pytest.raises(StoreUnwritableError) as refused:
        for at in range(2_000, 2_400):
            life.push(at, LONG + str(at))
    assert "result log" in refused.value.message and "full" in refused.value.message
    assert refused.value.hint is not None and "space" in refused.value.hint
    state = journal_state(life.engine)
    assert state is not None and "full" in state["trouble"]
    assert subscription.take() == [], "nobody sees what is not written"
    for change in (lambda: life.register("last"), lambda: life.engine.queries.drop("seen")):
        with pytest.raises(StoreUnwritableError, match="full"):
            change()
    assert life.engine.queries.current_answer("seen")["results"]["bindings"], "what is known can be read"
    tick(life.engine)
    assert journal_state(life.engine)["trouble"] is None  # type: ignore[index]
    assert [event.id for event in subscription.take()] == [2], "what waited is told, once"
    life.push(3_000, "b")
    assert ids(life) == list(range(1, len(ids(life)) + 1))
    before = life.told()
    life.checkpoint()
    assert life.told() == before


def test_under_the_change_log_updates_are_refused_whole_and_streams_go_on(life: Life) -> None:
    life.register("named", output="istream")
    log: Any = life.store.log
    with no_space(log._db):
        for number in range(400):
            try:
                life.store.writer.update(f'{P}INSERT DATA {{ :a :name "{LONG}{number}" }}')
            except StoreUnwritableError as refused:
                assert "full" in refused.message
                break
        else:
            raise AssertionError("nothing was refused")
        version, names = life.store.reader.version, life.store.reader.quad_count
        with pytest.raises(StoreUnwritableError, match="full"):
            life.store.writer.update(f'{P}INSERT DATA {{ :b :name "{LONG}" }}')
        assert (life.store.reader.version, life.store.reader.quad_count) == (version, names), (
            "nothing of it is there"
        )
        life.push(2_000, "a")
        assert len(ids(life)) == 2
    assert life.store.writer.update(P + 'INSERT DATA { :a :name "A" }').version == version + 1


def test_under_the_registry_a_registration_is_whole_or_absent(life: Life) -> None:
    database: Any = life.registry._database
    limit = [0]

    def opened(connection: Any, *_: Any) -> None:
        connection.execute(f"PRAGMA max_page_count={limit[0] or 1_000_000}")

    event.listen(database.engine, "checkout", opened)
    limit[0] = 1
    refused = 0
    for number in range(60):
        name = f"q{number}"
        try:
            life.register(name, f"SELECT ?x WHERE {{ STREAM :s [NOW] {{ ?x :seen '{LONG}' }} }}")
        except StoreUnwritableError as error:
            assert "full" in error.message
            refused += 1
            assert life.engine.parts.catalogue.find(name) is None
    assert refused, "there was no space for some"
    limit[0] = 0
    life.register("last")
    life.push(2_000, "b")
    names = [entry.name for entry in life.engine.parts.catalogue.entries()]
    event.remove(database.engine, "checkout", opened)
    assert sorted(record.name for record in life.registry.queries.all()) == sorted(names)


def test_a_backup_is_refused_while_results_or_inputs_wait_for_space(tmp_path: Path) -> None:
    life = Life(tmp_path / "d", ManualClock(1_000_000), threaded=True)
    life.register("seen")
    with no_space(life.journal.results._db):
        with pytest.raises(StoreUnwritableError):
            for at in range(2_000, 6_000):  # as soon as the engine's thread has come to it
                life.push(at, LONG + str(at))
        with ThreadPoolExecutor(1) as threaded, pytest.raises(StoreUnwritableError, match="result log.*full"):
            threaded.submit(life.engine.pin_files).result(10)
    life.engine.sync()
    held = life.engine.pin_files()
    assert held is not None
    held.close()
    life.stop()


def test_under_the_checkpoint_the_old_one_stays_and_the_journal_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    life = Life(tmp_path / "d", ManualClock(1_000_000))
    life.register("seen")
    life.push(1_000, "a")
    life.checkpoint()
    earliest = life.journal.log.earliest
    path = life.folder / "engine" / "checkpoint"
    old = path.read_bytes()

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    life.push(2_000, "b")
    monkeypatch.setattr(checkpoint_file.os, "fsync", full)
    life.checkpoint()
    monkeypatch.undo()
    assert path.read_bytes() == old and life.journal.log.earliest == earliest
    assert not list(path.parent.glob("*.new")), "no draft is left"
    before = life.told()
    life = life.crash()
    assert life.told() == before
    life.checkpoint()
    assert (life.folder / "engine" / "checkpoint").read_bytes() != old
    life.stop()
