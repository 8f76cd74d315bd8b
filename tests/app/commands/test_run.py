"""``quadrill run`` over recordings: instants of several streams, folders, options of a registration."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from quadrill.app.cli import main

INTEGER = "http://www.w3.org/2001/XMLSchema#integer"


def element(at: int, *triples: str) -> str:
    return json.dumps({"at": at, "data": "\n".join(f"{each} ." for each in triples)})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    assert main(["run", *arguments, "--format", "rows"]) == 0
    return capsys.readouterr().out.splitlines()


def test_elements_of_one_instant_are_one_transaction(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first element of the second stream comes at an instant that the first stream has, too."""
    (folder / "q.cqels").write_text(
        "SELECT ?v (COUNT(?w) AS ?n) { STREAM <urn:a> [NOW] { ?s <urn:v> ?v }"
        " OPTIONAL { STREAM <urn:b> [NOW] { ?s <urn:w> ?w } } } GROUP BY ?v"
    )
    (folder / "a.ndjson").write_text(
        "\n".join(element(at, f"<urn:s> <urn:v> <urn:v{at}>") for at in (1000, 2000, 3000))
    )
    (folder / "b.ndjson").write_text(
        "\n".join(element(at, "<urn:s> <urn:w> <urn:w1>", "<urn:s> <urn:w> <urn:w2>") for at in (2000, 3000))
    )
    lines = run(capsys, "q.cqels", "--stream", "urn:a=a.ndjson", "--stream", "urn:b=b.ndjson")
    assert [line.split()[-1] for line in lines] == ["0", "2", "2"]


def test_instants_after_the_end_of_a_stream_are_not_reached(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "q.cqels").write_text(
        "SELECT ?v { { STREAM <urn:a> [NOW] { ?s <urn:v> ?v } } UNION "
        "{ STREAM <urn:b> [NOW] { ?s <urn:v> ?v } } }"
    )
    (folder / "a.ndjson").write_text(
        "\n".join(element(at, f"<urn:s> <urn:v> <urn:v{at}>") for at in (1000, 2000, 9000))
    )
    (folder / "b.ndjson").write_text(element(2000, "<urn:s> <urn:v> <urn:b>"))
    files = ["--stream", "urn:a=a.ndjson", "--stream", "urn:b=b.ndjson"]
    assert len(run(capsys, "q.cqels", *files)) == 3
    assert len(run(capsys, "q.cqels", *files, "--until", "9000")) == 4
    assert len(run(capsys, "q.cqels", *files, "--option", "lateness=1000")) == 1


def test_a_folder_is_one_recording(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "q.cqels").write_text("SELECT ?v { STREAM <urn:a> [NOW] { ?s <urn:v> ?v } }")
    (folder / "in").mkdir()
    (folder / "in" / "2.ndjson").write_text(element(1000, "<urn:s> <urn:v> <urn:x>"))
    (folder / "in" / "1.ndjson").write_text(element(2000, "<urn:s> <urn:v> <urn:y>"))
    (folder / "in" / ".3.ndjson").write_text("half a li")
    lines = run(capsys, "q.cqels", "--stream", "urn:a=files:in")
    assert [line.split()[-1] for line in lines] == ["<urn:x>", "<urn:y>"]


def test_an_option_is_a_member_of_the_registration(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "q.cqels").write_text("SELECT ?v { STREAM <urn:a> [NOW] { ?s <urn:v> ?v } }")
    (folder / "a.ndjson").write_text(
        element(1000, "<urn:s> <urn:v> <urn:x>") + "\n" + element(2000, "<urn:s> <urn:v> <urn:y>")
    )
    stream = ["--stream", "urn:a=a.ndjson"]
    lines = run(capsys, "q.cqels", *stream, "--option", 'output="changes"')
    assert [line.split()[0] for line in lines] == ["+", "-", "+"]
    assert main(["run", "q.cqels", *stream, "--option", "output=changes"]) == 2
    assert "is not NAME=JSON" in capsys.readouterr().err
    assert main(["run", "q.cqels", *stream, "--option", "nothing=1"]) != 0
    assert "no member 'nothing'" in capsys.readouterr().err


def test_static_data_that_no_part_reads_is_a_warning(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "q.cqels").write_text("SELECT ?v { STREAM <urn:a> [NOW] { ?s <urn:v> ?v } }")
    (folder / "a.ndjson").write_text(element(1000, "<urn:s> <urn:v> <urn:x>"))
    (folder / "s.ttl").write_text("<urn:s> <urn:in> <urn:room> .")
    arguments = ["run", "q.cqels", "--stream", "urn:a=a.ndjson", "--static", "s.ttl"]
    assert main(arguments) == 0
    assert "--static s.ttl is not used" in capsys.readouterr().err
    (folder / "q.cqels").write_text("SELECT ?v { STREAM <urn:a> [NOW] { ?s <urn:v> ?v } ?s <urn:in> ?r }")
    assert main(arguments) == 0
    assert "warning" not in capsys.readouterr().err
