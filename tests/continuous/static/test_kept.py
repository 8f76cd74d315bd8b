"""Rows of static parts are read from disk at a start where they are those of a fresh evaluation, else not."""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyoxigraph import BlankNode, Literal, NamedNode, Triple

from quadrill.app.describing.figures import journal_state
from quadrill.app.describing.queries import describe
from quadrill.continuous.clock import ManualClock
from quadrill.continuous.settings import StaticLimits
from quadrill.continuous.static import stored_tables
from quadrill.continuous.static.table import Table
from quadrill.continuous.static.table_reading import Recomputer
from quadrill.store.blobs.blob_store import BlobStore
from quadrill.store.documents.packed_rows import PackedRows, pack
from quadrill.store.logs.change_log import SqliteChangeLog
from quadrill.store.quads.options import StoreOptions
from quadrill.store.quads.quad_store import QuadStore
from quadrill.store.terms import term_text

from ..test_recovery import Life, P, comparable
from .test_replay import BOTH, CLOSES, NAMED, PLAIN, names, short, update

ORDERED = "SELECT ?x ?n WHERE { ?x :name ?n } ORDER BY DESC(?n) ?x LIMIT 3"


LIMITS = StaticLimits(kept_s=0.0, kept_pauses=0)
"""All tables are worth to be kept."""
FEW_KEYS = replace(LIMITS, keys=2)


@pytest.fixture
def evaluated(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the tables that were evaluated as a whole."""
    found: list[str] = []
    read = Recomputer.read

    def counted(self: Recomputer, tables: Sequence[Table], **how: bool) -> Any:
        found.extend(table.name for table in tables)
        return read(self, tables, **how)

    monkeypatch.setattr(Recomputer, "read", counted)
    return found


def begun(folder: Path, text: str = NAMED, limits: StaticLimits = LIMITS) -> Life:
    """A life with a query, two rows and a checkpoint behind them."""
    life = Life(folder, ManualClock(0), static_limits=limits)
    life.register("q", text, **({} if text is ORDERED else {"output": "changes"}))
    life.push(1, "a", "b")
    update(life, names("a", 1))
    update(life, names("b", 2))
    life.checkpoint()
    return life


def origin(life: Life, name: str = "q") -> str:
    return str(describe(life.engine, name)["static_parts"][0]["origin"])


def file_of(life: Life) -> Path:
    return life.folder / "engine" / "tables.sqlite"


def test_after_a_crash_rows_are_read_from_disk_and_nothing_is_evaluated(
    tmp_path: Path, evaluated: list[str]
) -> None:
    life = begun(tmp_path / "d")
    assert origin(life) == "evaluated"
    before = life.told()
    evaluated.clear()
    life = life.crash()
    assert evaluated == []
    assert origin(life) == "read from disk at version 2"
    assert life.told() == before
    update(life, names("a", 3))
    assert short(life, "q") == [("insert", 1, 1), ("insert", 2, 1), ("insert", 3, 1)]
    state = journal_state(life.engine)
    assert state is not None and state["tables_bytes"] > 0
    life.stop()


def test_the_order_of_an_ordered_table_comes_back(tmp_path: Path, evaluated: list[str]) -> None:
    life = begun(tmp_path / "d", ORDERED)
    before = life.engine.queries.current_answer("q")
    evaluated.clear()
    life = life.crash()
    assert (evaluated, origin(life)) == ([], "read from disk at version 2")
    assert life.engine.queries.current_answer("q") == before
    update(life, names("c", 9))
    rows = life.engine.queries.current_answer("q")["results"]["bindings"]
    assert [row["n"]["value"] for row in rows] == ["9", "2", "1"]
    life.stop()


def test_commits_after_the_checkpoint_are_applied_as_changes(tmp_path: Path, evaluated: list[str]) -> None:
    life = begun(tmp_path / "d")
    update(life, names("a", 3))
    update(life, "DELETE WHERE { :b :name ?n }")
    before, answers = life.told(), life.answers()
    evaluated.clear()
    life = life.crash()
    assert evaluated == []
    assert (life.told(), life.answers()) == (before, answers)
    life.stop()


def test_a_table_written_earlier_serves_when_no_commit_since_touches_it(
    tmp_path: Path, evaluated: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    life = begun(tmp_path / "d")
    monkeypatch.setattr(stored_tables.KeptTables, "keep", lambda *_, **__: None)
    update(life, "INSERT DATA { :a :other 1 }")
    life.push(2, "a")
    life.checkpoint()
    before = life.told()
    evaluated.clear()
    life = life.crash()
    assert (evaluated, origin(life)) == ([], "read from disk at version 2")
    assert life.told() == before
    update(life, names("a", 4))
    # The next checkpoint is not accompanied by a table either, and this commit touches it.
    life.checkpoint()
    life = life.crash()
    assert len(evaluated) == 1 and origin(life) == "evaluated"
    assert life.answers()["q"]["results"]["bindings"]
    life.stop()


def test_a_table_written_after_the_checkpoint_does_not_serve_before_its_last_change(
    tmp_path: Path, evaluated: list[str]
) -> None:
    life = begun(tmp_path / "d")
    update(life, names("a", 5))
    life.engine.parts.statics.keep({}, at_end=True)
    before = life.told()
    evaluated.clear()
    life = life.crash()
    assert len(evaluated) == 1 and origin(life) == "evaluated"
    assert life.told() == before
    life.stop()


def test_rows_younger_than_the_last_evaluation_do_not_replace_those_that_a_start_needs(
    tmp_path: Path, evaluated: list[str]
) -> None:
    life = Life(tmp_path / "d", ManualClock(0), static_limits=LIMITS)
    life.register("closes", CLOSES)
    update(life, names("a", 1))
    life.push(1_000, "a")
    life.push(2_500, "a")
    life.checkpoint()
    # Behind the last report: the query goes on from the version before this one.
    update(life, names("a", 2))
    life.checkpoint()
    evaluated.clear()
    life = life.crash()
    assert (evaluated, origin(life, "closes")) == ([], "read from disk at version 1")
    life.push(4_500, "a")
    assert short(life, "closes")[-1][1:] == (2, 3)
    life.checkpoint()
    life = life.crash()
    assert (evaluated, origin(life, "closes")) == ([], "read from disk at version 2")
    life.stop()


@pytest.mark.parametrize("where", ["chunk", "facts", "middle", "all"])
def test_a_damaged_file_is_told_and_rows_are_evaluated(
    tmp_path: Path, evaluated: list[str], caplog: pytest.LogCaptureFixture, where: str
) -> None:
    life = begun(tmp_path / "d")
    before = life.told()
    life.stop()
    file = file_of(life)
    if where in {"chunk", "facts"}:
        db = sqlite3.connect(file)
        with db:
            if where == "chunk":
                db.execute("UPDATE parts SET data = data || x'00' WHERE place = 1")
            else:
                db.execute("UPDATE items SET facts = '{}'")
        db.close()
    elif where == "middle":
        data = file.read_bytes()
        file.write_bytes(data[:4096] + b"\x5a" * (len(data) - 4096))
    else:
        file.write_bytes(b"no database at all" * 100)
    evaluated.clear()
    life = Life(life.folder, life.clock, static_limits=LIMITS)
    assert len(evaluated) == 1 and origin(life) == "evaluated"
    expected = "is read again" if where in {"chunk", "facts"} else "is damaged and replaced by an empty file"
    assert expected in caplog.text
    assert life.told() == before
    life.stop()
    evaluated.clear()
    life = Life(life.folder, life.clock, static_limits=LIMITS)
    assert evaluated == [], "it was written again"
    life.stop()


def test_another_text_does_not_take_the_rows_and_rows_of_dropped_queries_go(
    tmp_path: Path, evaluated: list[str]
) -> None:
    life = begun(tmp_path / "d")
    life.engine.queries.drop("q")
    life.register("q", NAMED.replace(":name", ":also"))
    life = life.crash()
    assert origin(life) == "evaluated"
    life.checkpoint()
    db = sqlite3.connect(file_of(life))
    assert db.execute("SELECT count(*) FROM items").fetchone() == (1,)
    db.close()
    life.engine.queries.drop("q")
    life.checkpoint()
    db = sqlite3.connect(file_of(life))
    assert db.execute("SELECT (SELECT count(*) FROM items), (SELECT count(*) FROM parts)").fetchone() == (
        0,
        0,
    )
    db.close()
    life.stop()


def test_rows_of_another_folder_or_history_are_not_taken(tmp_path: Path, evaluated: list[str]) -> None:
    one, other = begun(tmp_path / "one"), begun(tmp_path / "other")
    update(other, names("c", 7))
    other.checkpoint()
    one.stop()
    other.stop()
    # The same number of commits, the same query, at the same times.
    shutil.copy(file_of(other), file_of(one))
    evaluated.clear()
    one = Life(one.folder, one.clock, static_limits=LIMITS)
    assert len(evaluated) == 1 and origin(one) == "evaluated"
    one.stop()

    clock = ManualClock(0)
    base = QuadStore.open(tmp_path / "base", StoreOptions(clock_ms=clock.now_ms))
    base.writer.update(P + names("a", 1))
    base.backup(tmp_path / "copy")
    base.writer.update(P + names("a", 2))
    parted = QuadStore.open(tmp_path / "copy", StoreOptions(clock_ms=clock.now_ms))
    parted.writer.update(P + names("a", 3))
    assert parted.log.mark(1) == base.log.mark(1) is not None
    assert parted.log.mark(2) != base.log.mark(2)
    assert base.log.mark(3) is None
    base.close()
    parted.close()


def test_a_log_that_does_not_reach_back_leads_to_an_evaluation(
    tmp_path: Path, evaluated: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    life = begun(tmp_path / "d")
    life.stop()
    monkeypatch.setattr(SqliteChangeLog, "mark", lambda self, version: None)
    evaluated.clear()
    life = Life(life.folder, life.clock, static_limits=LIMITS)
    assert len(evaluated) == 1 and origin(life) == "evaluated"
    life.stop()


def test_a_process_that_dies_while_the_file_is_written_leaves_the_rows_from_before(
    tmp_path: Path, evaluated: list[str]
) -> None:
    life = begun(tmp_path / "d")
    update(life, names("a", 5))
    images: list[Path] = []

    def copy(point: str) -> None:
        if point == "within-shelf":
            images.append(tmp_path / f"image{len(images)}")
            life.store.backup(images[-1])
            shutil.copytree(life.folder / "engine", images[-1] / "engine")
            for file in life.folder.glob("registry.sqlite*"):
                shutil.copy(file, images[-1])

    shelf = life.engine.parts.statics.kept.rows.shelf  # type: ignore[union-attr]
    shelf._reached = copy
    life.checkpoint()
    shelf._reached = lambda point: None
    before = life.told()
    life.stop()
    assert len(images) >= 3
    for image in images:
        evaluated.clear()
        again = Life(image, life.clock, static_limits=LIMITS)
        assert again.told() == before
        # The checkpoint is there already: its version is behind what is whole on disk, and was touched.
        assert len(evaluated) == 1 and origin(again) == "evaluated"
        again.stop()


def test_a_process_that_dies_while_rows_are_read_anew_takes_those_from_before_and_reads_again(
    tmp_path: Path, evaluated: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    life = begun(tmp_path / "d", limits=FEW_KEYS)
    monkeypatch.setattr(life.engine.parts.statics.recomputer, "ask", lambda table: None)
    update(life, names("a", *range(2, 9)))
    life.checkpoint()
    life.journal.log.sync()
    evaluated.clear()
    life = life.crash()
    # Once at the end of the replay; what it began with was on disk.
    assert len(evaluated) == 1
    assert short(life, "q")[-1] == ("insert", 3, 7)
    life.stop()


@pytest.mark.parametrize("seed", range(2))
def test_random_runs_with_crashes_tell_what_undisturbed_ones_do(
    tmp_path: Path, evaluated: list[str], seed: int
) -> None:
    taken = 0

    def run(folder: Path, crashes: frozenset[int]) -> dict[str, Any]:
        nonlocal taken
        chance = random.Random(seed)
        life = Life(folder, ManualClock(0), static_limits=FEW_KEYS)
        for name, text in (
            ("named", NAMED),
            ("both", BOTH),
            ("closes", CLOSES),
            ("plain", PLAIN),
            ("top", ORDERED),
        ):
            life.register(name, text, **({} if text in (CLOSES, ORDERED) else {"output": "changes"}))
        for step in range(40):
            life.clock.advance(3)
            match chance.randrange(7):
                case 0 | 1:
                    life.push(1_000 + 500 * step, *chance.sample("abcd", 2))
                case 2 | 3:
                    numbers = [chance.randrange(12) for _ in range(chance.choice((1, 1, 1, 5)))]
                    update(life, names(chance.choice("abcd"), *numbers))
                case 4:
                    update(life, f"DELETE WHERE {{ :{chance.choice('abcd')} :name ?n }}")
                case 5:
                    update(life, "DELETE WHERE { ?x :name 1 } ; INSERT DATA { :a :also :b }")
                case 6:
                    update(life, f"INSERT DATA {{ :a :other {step} }}")
            if chance.randrange(6) == 0:
                life.checkpoint()
            if step in crashes:
                life = life.crash()
                statics = life.engine.parts.statics
                assert statics.kept is not None
                taken += statics.kept.taken
        told = comparable(life.told())
        life.stop()
        return told

    undisturbed = run(tmp_path / "u", frozenset())
    assert run(tmp_path / "c", frozenset((7, 19, 25, 31, 38))) == undisturbed
    assert taken > 3, "tables were read from disk"


def test_rows_of_any_terms_come_back_as_they_were() -> None:
    chance = random.Random(4)
    terms: list[Any] = [
        NamedNode("http://example.org/ü"), BlankNode("b0"), Literal("a\n\"b\"\\"),
        Literal("x", language="en-gb"), Literal(2.5), Literal(""),
        Literal("01", datatype=NamedNode("http://www.w3.org/2001/XMLSchema#integer")),
    ]  # fmt: skip
    terms += [Literal(f"t{number}") for number in range(12_000)]
    rows = {(chance.choice(terms), None, term): chance.choice((1, 1, 3)) for term in terms}
    rows |= {(term, terms[0], terms[1]): 1 for term in terms}
    for width, some in ((3, rows), (3, list(rows)), (1, {(None,): 2}), (0, {(): 4}), (0, {}), (2, [])):
        counted = list(some.items()) if isinstance(some, dict) else [(row, 1) for row in some]
        packed = PackedRows(list(pack(counted, width, None, lambda term: term)))
        assert list(packed.rows(packed.terms, None)) == counted


NODE = NamedNode("http://e/n")


def test_terms_on_disk_are_written_as_the_dictionary_knows_them() -> None:
    inner = Triple(
        BlankNode("a"), NamedNode("http://e/ü"), Literal('x"\\\n\r\t\x00\x7f\u2028y', language="en")
    )
    terms = [inner, Triple(NODE, NODE, inner), inner.subject, inner.object, Literal(2.5)]
    packed = PackedRows(list(pack([((term,), 1) for term in terms], 1, None, lambda term: term)))
    assert packed.texts == [term_text(term) for term in terms]
    assert packed.terms == terms


def test_a_shelf_without_space_keeps_what_it_has(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf = BlobStore(tmp_path / "f.sqlite")
    assert shelf.write("a", {"n": 1}, [b"one", b"two"])

    def full(point: str) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    shelf._reached = full
    assert not shelf.write("a", {"n": 2}, [b"three"])
    assert "disk is full" in caplog.text
    shelf._reached = lambda point: None
    assert (shelf.facts("a"), shelf.read("a")) == ({"n": 1}, [b"one", b"two"])
    shelf.close()
    shelf = BlobStore(tmp_path / "f.sqlite")
    assert json.dumps(shelf.facts("a")) == '{"n": 1}'
    shelf.close()
