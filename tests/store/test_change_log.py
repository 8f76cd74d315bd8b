"""The change log: history, retention, trouble with the disk."""

from __future__ import annotations

import errno
import shutil
import sqlite3
import struct
from contextlib import closing
from pathlib import Path

import pytest
from pyoxigraph import Literal, NamedNode, Quad

from quadrill.store.changes.commit import Commit, GraphChange, rdf_patch
from quadrill.store.changes.counts import keys_of_counts
from quadrill.store.errors import GoneError, OlderFormatError, StoreFormatError, StoreUnwritableError
from quadrill.store.logs import change_faults, room
from quadrill.store.logs.change_log import SqliteChangeLog
from quadrill.store.logs.history import Retention
from quadrill.store.logs.reading import reading
from quadrill.store.quads.committer import ApplyError
from quadrill.store.quads.options import StoreOptions
from quadrill.store.quads.quad_store import QuadStore

A, P, G = (NamedNode(f"http://e/{name}") for name in "apg")


def quad(value: object) -> Quad:
    return Quad(A, P, Literal(str(value)), G)


def fill(store: QuadStore, count: int) -> None:
    begin = store.reader.version
    for number in range(begin, begin + count):
        store.writer.apply(add=[quad(number)])


def test_the_size_of_a_history_in_memory_counts_the_texts() -> None:
    with QuadStore.open(None, StoreOptions(retention=Retention(max_bytes=1_000_000))) as store:
        for number in range(20):
            store.writer.apply(add=[quad(f"{number} {'long ' * 20_000}")])
            store.writer.apply(remove=list(store.reader.quads_for_pattern()))
        with pytest.raises(GoneError) as gone:
            list(store.commits_after(0))
        assert store.reader.version - 12 < gone.value.details["earliest"] <= store.reader.version - 8


@pytest.mark.parametrize("folder", [None, "data"], ids=["memory", "disk"])
def test_history_is_trimmed_by_size_and_a_reader_behind_it_is_told_where_it_begins(
    tmp_path: Path, folder: str | None
) -> None:
    with QuadStore.open(
        folder and tmp_path / folder, StoreOptions(retention=Retention(max_bytes=4_000))
    ) as store:
        fill(store, 100)
        store.committer.checkpoint()
        fill(store, 1)
        with pytest.raises(GoneError) as caught:
            store.commits_after(0)
        earliest = caught.value.earliest
        assert 0 < earliest < 100
        assert [commit.version for commit in store.commits_after(earliest)] == list(range(earliest + 1, 102))
        with pytest.raises(GoneError):
            store.commits_after(earliest - 1)
        assert list(store.commits_after(101)) == []
        assert [commit.version for commit in store.commits_after(earliest, limit=3)] == [
            earliest + 1,
            earliest + 2,
            earliest + 3,
        ]


@pytest.mark.parametrize("folder", [None, "data"], ids=["memory", "disk"])
def test_history_is_trimmed_by_age(tmp_path: Path, folder: str | None) -> None:
    now = [1_000_000]
    options = {"retention": Retention(max_age_ms=1_000), "clock_ms": lambda: now[0]}
    with QuadStore.open(folder and tmp_path / folder, StoreOptions(**options)) as store:  # type: ignore[arg-type]
        fill(store, 3)
        now[0] += 900
        store.writer.apply(add=[quad("late")])
        store.committer.checkpoint()
        now[0] += 900
        store.writer.apply(add=[quad("later")])
        with pytest.raises(GoneError) as caught:
            store.commits_after(0)
        assert caught.value.earliest == 3
        assert [commit.at_ms for commit in store.commits_after(3)] == [1_000_900, 1_001_800]


def test_commits_that_recovery_may_need_are_never_trimmed(tmp_path: Path) -> None:
    with QuadStore.open(tmp_path / "data", StoreOptions(retention=Retention(max_bytes=1))) as store:
        fill(store, 20)
        assert len(list(store.commits_after(0))) == 20, "no checkpoint yet"
        store.committer.checkpoint()
        fill(store, 1)
        assert [commit.version for commit in store.commits_after(20)] == [21]
        with pytest.raises(GoneError):
            store.commits_after(19)


@pytest.mark.parametrize("folder", [None, "data"], ids=["memory", "disk"])
def test_a_reader_ahead_of_the_store_is_told_to_begin_anew(tmp_path: Path, folder: str | None) -> None:
    with QuadStore.open(folder and tmp_path / folder) as store:
        fill(store, 2)
        with pytest.raises(GoneError, match="ahead of the store"):
            store.commits_after(3)


def test_history_may_be_read_in_pages_while_commits_land(tmp_path: Path) -> None:
    with QuadStore.open(tmp_path / "data", StoreOptions(durable=False)) as store:
        fill(store, 450)
        versions = []
        for commit in store.commits_after(0):
            versions.append(commit.version)
            if commit.version == 10:
                fill(store, 1)
                store.writer.apply(add=[quad("more")])
        assert versions == list(range(1, 451)), "what is visible when the reading begins"


def test_large_commits_come_back_equal(tmp_path: Path) -> None:
    with QuadStore.open(tmp_path / "data") as store:
        commit = store.writer.update(
            "INSERT DATA { "
            + " ".join(
                f'<http://e/a> <http://e/p> "line\\nfeed \\u2028 {n}"@en , _:b{n} .' for n in range(2_000)
            )
            + " }"
        )
        assert list(store.commits_after(0)) == [commit]
        patch = rdf_patch(commit)
        assert patch.count("\nA ") == 4_000 and patch.endswith("TC .\n")


def test_an_rdf_patch_lists_names_removals_and_additions() -> None:
    store = QuadStore.open(None)
    store.writer.apply(add=[quad(1)])
    commit = store.writer.update("DROP GRAPH <http://e/g> ; INSERT DATA { <http://e/a> <http://e/p> 2 }")
    assert rdf_patch(commit).splitlines() == [
        'H version "2" .',
        "H dropped <http://e/g> .",
        "TX .",
        'D <http://e/a> <http://e/p> "1" <http://e/g> .',
        'A <http://e/a> <http://e/p> "2"^^<http://www.w3.org/2001/XMLSchema#integer> .',
        "TC .",
    ]
    with pytest.raises(ValueError, match="bulk load"):
        rdf_patch(Commit(3, 0, exact=False))


def test_an_rdf_patch_leaves_inferred_quads_out() -> None:
    asserted, inferred = quad(1), Quad(NamedNode("http://e/a"), NamedNode("http://e/p"), Literal("2"))
    graphs = {G.value: GraphChange(1, 0), "default": GraphChange(1, 0)}
    commit = Commit(4, 0, (asserted, inferred), created=(G,), graphs=graphs, inferred=frozenset({G.value}))
    lines = ['H version "4" .', "TX .", f"A {inferred} .", "TC ."]
    assert rdf_patch(commit).splitlines() == lines
    assert rdf_patch(commit, inferred=True).splitlines() == [
        lines[0],
        f"H created {G} .",
        "TX .",
        f"A {asserted} .",
        *lines[2:],
    ]
    assert commit.asserted_graphs == {"default": GraphChange(1, 0)}
    assert commit.inferred_graphs == {G.value: GraphChange(1, 0)}


def test_a_full_disk_refuses_the_commit_and_nothing_changes(tmp_path: Path) -> None:
    with QuadStore.open(tmp_path / "data") as store:
        fill(store, 2)
        log = store.log
        pages = log._db.execute("PRAGMA page_count").fetchone()[0]  # type: ignore[attr-defined]
        log._db.execute(f"PRAGMA max_page_count = {pages}")  # type: ignore[attr-defined]
        with pytest.raises(StoreUnwritableError, match="full"):
            store.writer.apply(add=[quad("x" * 100_000), *(quad(f"{n} {n * n}") for n in range(20_000))])
        assert (
            store.reader.version,
            store.reader.quad_count,
            len(store.reader.quads_for_pattern(graph=G)),
        ) == (2, 2, 2)
        log._db.execute("PRAGMA max_page_count = 1000000")  # type: ignore[attr-defined]
        assert store.writer.apply(add=[quad("after")]).version == 3


def test_a_commit_that_could_not_be_applied_is_made_before_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[int] = []
    with QuadStore.open(tmp_path / "data") as store:
        store.subscribers.subscribe(lambda commit: told.append(commit.version))
        fill(store, 1)

        def broken(*_: object) -> None:
            raise OSError("IO error: No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr("quadrill.store.quads.committer.apply_change", broken)
            with pytest.raises(ApplyError, match="version 2 is logged"):
                store.writer.apply(add=[quad("two")])
            assert (store.reader.version, told, list(store.commits_after(1))) == (1, [1], [])
            with pytest.raises(ApplyError, match="version 2"):
                store.writer.apply(add=[quad("three")])
        assert store.writer.apply(add=[quad("four")]).version == 3
        assert {quad.object.value for quad in store.reader.quads_for_pattern(graph=G)} == {"0", "two", "four"}
        assert told == [1, 2, 3] and store.reader.quad_count == 3


def test_a_damaged_log_is_refused_with_a_hint(tmp_path: Path) -> None:
    QuadStore.open(tmp_path / "data").close()
    (tmp_path / "data" / "changes.sqlite").write_bytes(b"not a database at all" * 300)
    with pytest.raises(StoreFormatError, match="damaged") as caught:
        QuadStore.open(tmp_path / "data")
    assert caught.value.hint == "restore the data folder from a backup"


def test_a_log_without_its_tables_is_refused(tmp_path: Path) -> None:
    QuadStore.open(tmp_path / "data").close()
    path = tmp_path / "data" / "changes.sqlite"
    path.unlink()
    sqlite3.connect(path).close()
    path.touch()
    with pytest.raises(StoreFormatError, match="damaged"):
        QuadStore.open(tmp_path / "data")


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """The folder of a process that was killed: much of the log is in its write-ahead log."""
    folder = tmp_path / "killed"
    with QuadStore.open(tmp_path / "run") as store:
        for number in range(21):
            fill(store, 1 + number % 3)
            store.writer.update(f"INSERT DATA {{ <http://a> <http://n> {number} }}")
        shutil.copytree(tmp_path / "run", folder)
    return folder


def test_a_log_that_is_whole_opens_after_a_kill(killed: Path) -> None:
    with QuadStore.open(killed) as store:
        assert store.reader.version >= 21 and len(list(store.commits_after(0))) == store.reader.version


@pytest.mark.parametrize("back", [100, 30_000, None])
def test_a_damaged_or_missing_write_ahead_log_is_refused(killed: Path, back: int | None) -> None:
    log = killed / "changes.sqlite-wal"
    data = bytearray(log.read_bytes())
    if back is None:
        log.unlink()
        data.clear()
    else:
        data[len(data.rstrip(b"\0")) - back] ^= 0x10
        log.write_bytes(data)
    for _ in range(2):
        with pytest.raises(StoreFormatError, match="was durable|damaged") as caught:
            QuadStore.open(killed)
        assert "quadrill repair --drop-damaged" in str(caught.value.hint)
        assert not data or log.read_bytes() == data, "what is refused is left as it is"


def test_the_write_ahead_log_never_grows(tmp_path: Path) -> None:
    log = tmp_path / "changes.sqlite-wal"
    for _ in range(2):
        with QuadStore.open(tmp_path) as store:
            size = log.stat().st_size
            fill(store, 400)  # they are more than it has room for
            assert log.stat().st_size == size
    with QuadStore.open(tmp_path) as store:
        assert store.reader.version == len(list(store.commits_after(0))) == 800


def test_without_space_for_its_room_the_write_ahead_log_grows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr(room.os, "fdatasync", full)
    monkeypatch.setattr(room, "_FRAMES", 10)
    with QuadStore.open(tmp_path) as store:
        fill(store, 20)
        assert (tmp_path / "changes.sqlite-wal").stat().st_size > 20 * 4096
        assert store.reader.version == 20


def test_a_file_that_is_gone_is_refused(killed: Path) -> None:
    for file in ("changes.sqlite", "changes.sqlite-wal", "changes.sqlite-shm"):
        (killed / file).rename(killed / f"{file}.away")
    with pytest.raises(StoreFormatError, match="was durable"):
        QuadStore.open(killed)
    (killed / "changes.sqlite.mark").rename(killed / "changes.mark.away")
    with pytest.raises(StoreFormatError, match="has quads, its change log .* has no commit"):
        QuadStore.open(killed)
    for away in killed.glob("*.away"):
        away.replace(away.with_suffix("") if "sqlite" in away.name else killed / "changes.sqlite.mark")
    (killed / "quads").rename(killed / "quads-away")
    with pytest.raises(StoreFormatError, match="is gone, its change log is at version"):
        QuadStore.open(killed)
    (killed / "quads-away").rename(killed / "quads")
    QuadStore.open(killed).close()


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ("UPDATE meta SET value = value + 1 WHERE name = 'checkpoint'", "check sum of its figures"),
        ("DELETE FROM commits WHERE version > 20", "ends at version 20, version 63 was durable"),
        ("UPDATE counts SET quads = quads + 1", "number of quads"),
    ],
)
def test_values_that_nobody_wrote_are_refused(killed: Path, change: str, match: str) -> None:
    with closing(sqlite3.connect(killed / "changes.sqlite")) as database:
        database.execute(change)
        database.commit()
    with pytest.raises(StoreFormatError, match=match):
        QuadStore.open(killed)


def test_a_newest_commit_that_is_gone_is_damage_without_a_mark(killed: Path) -> None:
    QuadStore.open(killed).close()
    (killed / "changes.sqlite.mark").unlink()
    with closing(sqlite3.connect(killed / "changes.sqlite")) as database:
        database.execute("DELETE FROM commits WHERE version > 20")
        database.commit()
    with pytest.raises(StoreFormatError, match="it is at version 63, its newest commit is 20"):
        QuadStore.open(killed)


def test_figures_and_counts_after_kills_are_those_of_the_newest_commit(tmp_path: Path) -> None:
    """Commits are logged without them: they are written now and then, as by a flush."""

    def kill(folder: Path, name: str) -> SqliteChangeLog:
        (tmp_path / name).mkdir()
        for path in folder.glob("changes.sqlite*"):
            shutil.copy(path, tmp_path / name)
        log = SqliteChangeLog(tmp_path / name / "changes.sqlite", durable=True, retention=Retention())
        with reading(tmp_path / name / "changes.sqlite") as db:
            newest = db.execute("SELECT max(version), sum(bytes) FROM commits").fetchone()
            facts = change_faults.facts_of(db)
            assert newest == (log.version, facts["bytes"]) and facts["version"] == log.version
        return log

    more, other = quad("more"), NamedNode("http://g/other")
    with QuadStore.open(tmp_path / "run") as store:
        for number, act in enumerate(
            (
                lambda: store.writer.apply(add=[quad(1), quad(2), Quad(A, P, A), Quad(A, P, A, other)]),
                lambda: store.writer.apply(remove=[Quad(A, P, A)], create=[NamedNode("http://g/empty")]),
                store.committer.checkpoint,
                lambda: store.writer.apply(drop=[other]),
                lambda: store.writer.apply(add=[Quad(A, P, P)], remove=[quad(1), quad(2)]),
                lambda: store.writer.bulk_extend([Quad(A, P, Literal("loaded"), other)]),
                lambda: store.writer.apply(add=[quad(3)], drop=[NamedNode("http://g/empty")]),
            )
        ):
            act()
            expected = keys_of_counts(store.reader.graph_counts())
            with closing(kill(tmp_path / "run", f"{number}")) as log:
                assert (log.version, log.counts()) == (store.reader.version, expected)
                expected[G.value] = expected.get(G.value, 0) + 1
                graphs = {G.value: GraphChange(1, 0)}
                log.append([Commit(log.version + 1, 0, (more,), graphs=graphs)], {G.value: expected[G.value]})
                with closing(kill(tmp_path / f"{number}", f"{number}again")) as again:
                    assert (again.version, again.counts()) == (store.reader.version + 1, expected)


def test_a_commit_that_nobody_made_is_not_told(killed: Path) -> None:
    QuadStore.open(killed).close()
    with closing(sqlite3.connect(killed / "changes.sqlite")) as database:
        database.execute("UPDATE commits SET cause = 'another' WHERE version = 7")
        database.commit()
    with QuadStore.open(killed) as store:
        assert len(list(store.commits_after(7))) == store.reader.version - 7
        with pytest.raises(StoreFormatError, match="check sum of version 7"):
            list(store.commits_after(3))


@pytest.mark.parametrize("missing", [("check", "earliest"), ("earliest",)])
def test_a_log_of_before_the_oldest_format_is_refused_with_the_commit_that_exports_it(
    killed: Path, missing: tuple[str, ...]
) -> None:
    QuadStore.open(killed).close()
    with closing(sqlite3.connect(killed / "changes.sqlite")) as database:
        for name in missing:
            database.execute("DELETE FROM meta WHERE name = ?", (name,))
        database.commit()
    with pytest.raises(OlderFormatError, match="changes.sqlite was written before commit 30ff0e66") as caught:
        QuadStore.open(killed)
    assert "commit 30ff0e66 still exports it" in str(caught.value.hint)


def test_a_middle_or_a_beginning_that_is_gone_is_damage_and_no_history_that_begins_later(
    killed: Path,
) -> None:
    QuadStore.open(killed).close()
    for gone in ("version = 2", "version <= 2"):
        copy = Path(shutil.copytree(killed, killed.with_name(gone)))
        with closing(sqlite3.connect(copy / "changes.sqlite")) as database:
            database.execute(f"DELETE FROM commits WHERE {gone}")
            database.commit()
        with pytest.raises(StoreFormatError, match="is damaged: it"):
            QuadStore.open(copy)


def test_a_commit_that_goes_while_the_store_is_open_is_told_as_damage(killed: Path) -> None:
    with QuadStore.open(killed) as store:
        for gone, read in (("version = 2", 1), ("version = (SELECT max(version) FROM commits)", 2)):
            with closing(sqlite3.connect(killed / "changes.sqlite")) as database:
                database.execute(f"DELETE FROM commits WHERE {gone}")
                database.commit()
            with pytest.raises(StoreFormatError, match="no commit behind version"):
                list(store.commits_after(read))


def test_a_trimmed_log_opens_again(tmp_path: Path) -> None:
    with QuadStore.open(tmp_path, StoreOptions(retention=Retention(max_bytes=4_000))) as store:
        fill(store, 100)
        store.committer.checkpoint()
        fill(store, 1)
        version = store.reader.version
    with QuadStore.open(tmp_path) as store:
        assert store.reader.version == version
        with pytest.raises(GoneError):
            list(store.commits_after(0))


def test_a_list_of_files_that_is_cut_short_is_refused(tmp_path: Path) -> None:
    for _ in range(2):
        with QuadStore.open(tmp_path / "data") as store:
            fill(store, 20)
            store.backup(tmp_path / f"saved{store.reader.version}")
    QuadStore.open(tmp_path / "saved40").close()
    for made in (tmp_path / "data", tmp_path / "saved40"):
        (path,) = (made / "quads").glob("MANIFEST-*")
        whole = path.read_bytes()
        _, durable = struct.unpack_from("<QQ", (made / "quads.mark").read_bytes())
        assert len(whole) // 2 < durable <= len(whole)
        for kept in (0, 1, len(whole) // 2, durable - 1):
            path.write_bytes(whole[:kept])
            with pytest.raises(StoreFormatError, match=f"{path.name} has {kept} bytes"):
                QuadStore.open(made)
            assert path.read_bytes() == whole[:kept]
        path.write_bytes(whole[: durable - 1] + bytes([whole[durable - 1] ^ 1]) + whole[durable:])
        with pytest.raises(StoreFormatError, match="check sum of the first"):
            QuadStore.open(made)
        current = (made / "quads" / "CURRENT").read_text()
        (made / "quads" / "CURRENT").unlink()
        with pytest.raises(StoreFormatError, match="not its list of files any more"):
            QuadStore.open(made)
        (made / "quads" / "CURRENT").write_text(current)
        path.write_bytes(whole)
        with QuadStore.open(made) as store:
            assert store.reader.quad_count == 40


@pytest.mark.parametrize("mark", [b"", b"x" * 24, None], ids=["empty", "damaged", "gone"])
def test_a_mark_of_the_list_of_files_that_cannot_be_read_says_nothing(
    tmp_path: Path, mark: bytes | None
) -> None:
    with QuadStore.open(tmp_path) as store:
        fill(store, 3)
    path = tmp_path / "quads.mark"
    if mark is None:
        path.unlink()
    else:
        path.write_bytes(mark)
    with QuadStore.open(tmp_path) as store:
        assert store.reader.quad_count == 3
    assert len(path.read_bytes()) == 24
