"""What ``quadrill run --engine spark`` refuses before it starts Spark: one sentence, nothing written."""

from __future__ import annotations

from pathlib import Path

import pytest

from quadrill.app.cli import main
from quadrill.continuous.scale_out import spark_runtime
from quadrill.continuous.scale_out.program import WorkOrder

from . import jobs

S = jobs.STREAMS[0]
QUERY = jobs.HEAD + "SELECT ?x ?v { STREAM :s [NOW] { ?x :p ?v } }"
P = "<http://example.org/p>"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "q.cqels").write_text(QUERY)
    jobs.write(tmp_path / "in", "1.ndjson", [(1000, f"<urn:a> {P} <urn:1> .")])
    return tmp_path


def refusal(capsys: pytest.CaptureFixture[str], code: int, *arguments: str) -> str:
    capsys.readouterr()
    assert main(["run", "q.cqels", "--engine", "spark", *arguments]) == code
    found = capsys.readouterr()
    assert found.out == ""
    return found.err


GIVEN = ("--checkpoint", "job", "--stream", f"{S}=files:in")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--stream", f"{S}=files:in"), "--checkpoint"),
        (("--checkpoint", "job"), "--stream"),
        ((*GIVEN, "--key-groups", "0"), "--key-groups"),
        ((*GIVEN, "--sink", "postgres:x"), "--sink"),
        ((*GIVEN, "--option", "output"), "--option"),
        ((*GIVEN, "--option", "nothing=1"), "nothing"),
        ((*GIVEN, "--option", 'late="admit"'), "late"),
        ((*GIVEN, "--stream", "http://example.org/other=files:in"), "does not read the stream"),
        ((*GIVEN, "--self-contained", "http://example.org/other"), "--self-contained"),
        ((*GIVEN, "--format", "debs"), "debs"),
    ],
)
def test_a_wrong_option_exits_with_2(
    arguments: tuple[str, ...], words: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert words in refusal(capsys, 2, *arguments)
    assert not (folder / "job").exists()


def test_a_query_that_does_not_split_names_the_pattern(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "q.cqels").write_text(
        jobs.HEAD + "SELECT ?x ?v { STREAM :s [RANGE 1s] { ?x :p ?v . ?y :q ?z } }"
    )
    errors = refusal(capsys, 2, *GIVEN)
    assert "http://example.org/q" in errors
    assert "lacks ?x" in errors
    assert "--self-contained" in errors
    assert "--key-groups 1" in errors
    assert not (folder / "job").exists()


def test_a_missing_folder_or_static_file_exits_with_1(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_runtime, "spark_missing", lambda: None)
    assert "no folder" in refusal(capsys, 1, "--checkpoint", "job", "--stream", f"{S}=files:none")
    assert "cannot be read" in refusal(capsys, 1, *GIVEN, "--static", "none.ttl")


def test_missing_java_exits_with_1(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_runtime, "spark_missing", lambda: "Spark needs Java 17 or newer")
    assert "Java 17" in refusal(capsys, 1, *GIVEN)
    assert not (folder / "job").exists()


def test_a_master_that_does_not_answer_exits_with_1(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_runtime, "spark_missing", lambda: None)
    assert "no Spark master answers" in refusal(capsys, 1, *GIVEN, "--master", "spark://127.0.0.1:1")
    assert not (folder / "job").exists()


def test_another_command_is_refused_and_named(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_runtime, "spark_missing", lambda: None)
    (folder / "r.ttl").write_text("<urn:a> <urn:b> <urn:c> .")
    one = jobs.job(
        folder, WorkOrder(QUERY, {"dialect": "cqels"}, (S,), groups=64), [f"files:{folder / 'in'}"]
    )
    one.checkpoint.close()
    given = (*GIVEN, "--sink", f"files:{folder / 'out'}")
    assert "--key-groups" in refusal(capsys, 2, *given, "--key-groups", "3")
    assert "the options" in refusal(capsys, 2, *given, "--option", "lateness=1")
    assert "the static files" in refusal(capsys, 2, *given, "--static", "r.ttl")
    other = (*given[:2], "--stream", f"{S}=files:.", *given[4:])
    assert "the streams and their sources" in refusal(capsys, 2, *other)
    (folder / "q.cqels").write_text(QUERY + " ")
    assert "the query text" in refusal(capsys, 2, *given)


def test_options_of_a_job_need_the_engine(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "q.cqels", "--stream", f"{S}=files:in", "--once"]) == 2
    assert "--once needs --engine spark" in capsys.readouterr().err
