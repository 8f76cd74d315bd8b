"""Files of one source whose records have a time: each is a partition of event time, read in turns."""

from __future__ import annotations

import gzip
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.app.conftest import LiveServer, Start
from tests.app.test_feed_streams import until

from .processes import served
from .test_sources import S, put, state, subjects

CONSTRUCT = 'CONSTRUCT { ?s <urn:p> <urn:o> } WHERE { BIND(IRI(CONCAT("urn:", STR(?number))) AS ?s) }'
MAPPING = {"format": "json", "construct": CONSTRUCT, "time": "at", "time_format": "s"}
STREAM = {"mapping": MAPPING, "retention": "1h", "lateness": "1s"}
FIRST = 1_777_629_600


def records(seconds: Iterable[int]) -> str:
    return "".join(f'{{"at": {FIRST + at}, "number": {at}}}\n' for at in seconds)


def start(start_server: Start, folder: Path, **settings: Any) -> LiveServer:
    server = start_server(source_folders=(str(folder),), **settings)
    answer = server.client.put("/streams", params={"iri": S}, json=STREAM)
    assert answer.status_code in (200, 201), answer.text
    return server


def stream(server: Any) -> dict[str, Any]:
    return dict(server.client.get("/streams", params={"iri": S}).json())


def wait_for(server: Any, number: int) -> None:
    """So many elements have entered, none of them late."""
    until(lambda: stream(server)["accepted"] >= number)
    described = stream(server)
    assert (described["accepted"], described["late_counts"]["late"]) == (number, 0)


def test_files_that_cover_the_same_hours_lose_nothing(start_server: Start, tmp_path: Path) -> None:
    server = start(start_server, tmp_path)
    (tmp_path / "a.ndjson").write_text(records(range(2_000)))
    (tmp_path / "b.ndjson.gz").write_bytes(gzip.compress(records(range(0, 4_000, 2)).encode()))
    (tmp_path / "c.ndjson").write_text(records(range(2_000)).rstrip())
    put(server, kind="file", path=f"{tmp_path}/*", format="application/x-ndjson", every="20ms", batch=100)
    wait_for(server, 5_999)  # the last line of the last file has no end
    newest = {Path(each["partition"]).name: each["newest"] for each in stream(server)["partitions"]}
    assert {name: at // 1_000 - FIRST for name, at in newest.items()} == {
        "a.ndjson": 1_999, "b.ndjson.gz": 3_998, "c.ndjson": 1_998,
    }  # fmt: skip
    with (tmp_path / "c.ndjson").open("a") as file:
        file.write("\n" + records([2_000]))
    wait_for(server, 6_001)
    (tmp_path / "d.ndjson").write_text(records([2_001]))
    (tmp_path / "aa.ndjson").write_text(records([2_001]))
    wait_for(server, 6_003)
    assert state(server)["refused"] == 0


@pytest.mark.parametrize("files", [1, 2, 7])
def test_days_enter_in_their_order(start_server: Start, tmp_path: Path, files: int) -> None:
    """Of files that are read ahead only the first push enters early; with one at once, none."""
    server = start(start_server, tmp_path)
    for day in range(5):
        (tmp_path / f"{day}.ndjson").write_text(records(range(day * 200, day * 200 + 200)))
    put(server, kind="file", path=f"{tmp_path}/*.ndjson", every="20ms", batch=20, files=files)
    wait_for(server, 1_000)
    entered = subjects(server)
    assert sorted(entered) == list(range(1_000))
    early = sum(later < max(entered[:place], default=0) for place, later in enumerate(entered))
    assert (early == 0) is (files == 1)
    (tmp_path / "5.ndjson").write_text(records([1_000]))
    wait_for(server, 1_001)


def test_one_after_the_other_when_more_files_than_may_be_read_at_once_overlap(
    start_server: Start, tmp_path: Path
) -> None:
    server = start(start_server, tmp_path)
    for name in "abc":
        (tmp_path / f"{name}.ndjson").write_text(records(range(100)))
    put(server, kind="file", path=f"{tmp_path}/*.ndjson", every="20ms", batch=10, files=2)
    until(lambda: stream(server)["accepted"] >= 300)
    assert stream(server)["late_counts"]["late"] in range(1, 101)
    with (tmp_path / "a.ndjson").open("a") as file:
        file.write(records([100]))
    until(lambda: state(server)["refused"] >= 1)
    letters = server.client.get("/sources/it/dead-letters").json()["letters"]
    assert str(tmp_path / "a.ndjson") in [each["record"] for each in letters]


def test_unreadable_file_holds_up_no_other(start_server: Start, tmp_path: Path) -> None:
    server = start(start_server, tmp_path)
    (tmp_path / "a.ndjson.gz").write_bytes(b"no gzip at all")
    for name in "bc":
        (tmp_path / f"{name}.ndjson").write_text(records(range(100)))
    path = f"{tmp_path}/*"
    put(server, kind="file", path=path, format="application/x-ndjson", every="20ms", batch=10)
    wait_for(server, 200)
    until(lambda: "a.ndjson.gz cannot be read" in str(state(server)["error"]))
    assert (state(server)["state"], state(server)["refused"]) == ("running", 1)
    (tmp_path / "a.ndjson.gz").write_bytes(gzip.compress(records(range(99, 120)).encode()))
    wait_for(server, 221)
    until(lambda: state(server)["error"] is None)


def test_files_that_are_there_are_skipped_from_the_end(start_server: Start, tmp_path: Path) -> None:
    server = start(start_server, tmp_path)
    for name in "abc":
        (tmp_path / f"{name}.ndjson").write_text(records(range(10)))
    put(server, kind="file", path=f"{tmp_path}/*.ndjson", every="20ms", **{"from": "end"})
    until(lambda: state(server)["position"] is not None)
    for name in "abcd":
        with (tmp_path / f"{name}.ndjson").open("a") as file:
            file.write(records([20]))
    wait_for(server, 4)


def test_line_without_its_end_waits_for_its_writer_for_a_minute(start_server: Start, tmp_path: Path) -> None:
    server = start(start_server, tmp_path)
    half = records([1])[:10]
    (tmp_path / "a.ndjson").write_text(records([0]) + half)
    (tmp_path / "b.ndjson").write_text(records([0]).rstrip())
    (tmp_path / "c.ndjson").write_text(records([0]))
    put(server, kind="file", path=f"{tmp_path}/*.ndjson", every="20ms")
    wait_for(server, 2)
    now = time.time()
    os.utime(tmp_path / "b.ndjson", (now, now - 61))
    os.utime(tmp_path / "a.ndjson", (now, now - 50))
    wait_for(server, 3)
    with (tmp_path / "a.ndjson").open("a") as file:
        file.write(records([1])[10:])
    wait_for(server, 4)
    assert state(server)["refused"] == 0


def test_file_that_comes_later_is_read_from_its_start_also_from_the_end(
    start_server: Start, tmp_path: Path
) -> None:
    server = start(start_server, tmp_path)
    path = tmp_path / "a.ndjson"
    put(server, kind="file", path=str(path), every="20ms", **{"from": "end"})
    until(lambda: "there is no file" in str(state(server)["error"]))
    path.write_text(records(range(3)))
    wait_for(server, 3)


@pytest.mark.process
def test_each_line_enters_once_over_kills(tmp_path: Path) -> None:
    folder, data, written = tmp_path / "in", tmp_path / "data", 0
    folder.mkdir()
    for life in range(2):
        with served(data, source_folders=str(folder)) as server:
            if life == 0:
                server.client.put("/streams", params={"iri": S}, json=STREAM)
                members = {
                    "kind": "file",
                    "stream": S,
                    "path": f"{folder}/*.ndjson",
                    "every": "10ms",
                    "batch": 20,
                }
                assert server.client.put("/sources/it", json=members).status_code == 201
            for name in "abcde":
                with (folder / f"{name}.ndjson").open("a") as file:
                    file.write(records(range(life * 100, life * 100 + 100)))
                written += 100
            if life == 1:
                wait_for(server, written)
            else:
                until(lambda before=written: server.accepted(S) > before - 400)
