"""A registry that lost changes or holds values that nobody wrote is refused, and left as it is."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from quadrill.store.errors import StoreFormatError
from quadrill.store.registry import PrefixRecord, QueryRecord, Registry, RegistryError, default_url


def record(name: str) -> QueryRecord:
    return QueryRecord(
        name=name, text="SELECT * { ?s ?p ?o }", dialect=None, options={"b": [1.5, None], "a": "ä"}
    )


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """The folder of a process that was killed: much of the file is in its write-ahead log."""
    folder = tmp_path / "killed"
    (tmp_path / "run").mkdir()
    with Registry.open(default_url(tmp_path / "run")) as registry:
        for number in range(8):
            registry.queries.add(record(f"q{number}"))
        registry.queries.update("q1", state="paused")
        registry.prefixes.put(PrefixRecord("ex", "http://example.org/"))
        shutil.copytree(tmp_path / "run", folder)
    return folder


def names(folder: Path) -> list[str]:
    with Registry.open(default_url(folder)) as registry:
        return [each.name for each in registry.queries.all()]


def test_a_registry_that_is_whole_opens_again_and_again(killed: Path) -> None:
    for _ in range(3):
        assert names(killed) == [f"q{number}" for number in range(8)]


@pytest.mark.parametrize("back", [100, 4_000, 20_000, 60_000])
def test_a_flipped_byte_of_the_write_ahead_log_is_refused(killed: Path, back: int) -> None:
    log = killed / "registry.sqlite-wal"
    data = bytearray(log.read_bytes())
    data[-back] ^= 0x10
    log.write_bytes(data)
    for _ in range(2):
        with pytest.raises(StoreFormatError, match="changes, .* were durable") as caught:
            names(killed)
        assert "quadrill repair" in str(caught.value.hint)
        assert log.read_bytes() == data, "what is refused is left as it is"


@pytest.mark.parametrize("file", ["registry.sqlite", "registry.sqlite-wal"])
def test_a_missing_file_is_refused(killed: Path, file: str) -> None:
    (killed / file).unlink()
    with pytest.raises((StoreFormatError, RegistryError)):
        names(killed)


def test_a_value_that_nobody_wrote_is_refused(killed: Path) -> None:
    with closing(sqlite3.connect(killed / "registry.sqlite")) as database:
        database.execute("UPDATE queries SET text = 'SELECT * { ?s ?p ?x }' WHERE name = 'q3'")
        database.commit()
    with pytest.raises(StoreFormatError, match="a row of the table queries is not what was written"):
        names(killed)


def test_rows_of_an_earlier_release_get_their_check_sums(killed: Path) -> None:
    with closing(sqlite3.connect(killed / "registry.sqlite")) as database:
        database.execute("UPDATE queries SET digest = NULL")
        database.commit()
    assert len(names(killed)) == 8
    with closing(sqlite3.connect(killed / "registry.sqlite")) as database:
        assert database.execute("SELECT count(*) FROM queries WHERE digest IS NULL").fetchone() == (0,)
