"""``quadrill run`` over recordings: instants of several streams, folders, options of a registration."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from quadrill.app.cli import build_parser, main
from quadrill.app.commands.run import registration_options

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
    assert run(capsys, "q.cqels", *stream, "--option", "output=changes") == lines
    assert run(capsys, "q.cqels", *stream, "--output", "changes") == lines
    assert main(["run", "q.cqels", *stream, "--option", "output"]) == 2
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


QUERY = (
    "SELECT ?s ?n { STREAM <urn:a> [NOW] { ?s <urn:v> ?v } STREAM <urn:b> [RANGE 1h] { ?s <urn:w> ?w } "
    "GRAPH <urn:g> { ?s <urn:name> ?n } ?s <urn:in> ?room }"
)
READ_NOT_GIVEN = {
    "b": "the query reads the stream <urn:b>, which no --stream gives",
    "g": "the query reads the graph <urn:g>, which no --static urn:g=FILE gives",
    "default": "the query reads the default graph, which no --static FILE gives",
}


@pytest.mark.parametrize("left_out", ["", "b", "g", "default", "bg", "all"])
def test_what_is_read_and_not_given_is_said_before_the_first_event(
    folder: Path, capsys: pytest.CaptureFixture[str], left_out: str
) -> None:
    (folder / "q.cqels").write_text(QUERY)
    for name, property in (("a", "v"), ("b", "w")):
        (folder / f"{name}.ndjson").write_text(element(1000, f"<urn:s> <urn:{property}> <urn:x>"))
    (folder / "g.ttl").write_text("<urn:s> <urn:name> <urn:n> ; <urn:in> <urn:r> .")
    given = {
        "b": ["--stream", "urn:b=b.ndjson"],
        "g": ["--static", "urn:g=g.ttl"],
        "default": ["--static", "g.ttl"],
    }
    missing = given.keys() if left_out == "all" else [each for each in given if each in (left_out, *left_out)]
    arguments = ["run", "q.cqels", "--format", "rows"]
    arguments += [] if left_out == "all" else ["--stream", "urn:a=a.ndjson"]
    arguments += [word for each in given if each not in missing for word in given[each]]
    assert main(arguments) == 0
    told = capsys.readouterr()
    expected = [READ_NOT_GIVEN[each] for each in missing]
    if left_out == "all":
        expected.insert(0, "the query reads the stream <urn:a>, which no --stream gives")
    warnings = [line for line in told.err.splitlines() if not line.startswith("#  ")]
    assert warnings == [f"# warning: {each}" for each in expected]
    assert len(told.out.splitlines()) == (not missing)
    assert main([*arguments, "--strict"]) == (1 if missing else 0)
    strict = capsys.readouterr()
    assert strict.out == ("" if missing else told.out)
    assert ("--strict refuses these warnings" in strict.err) == bool(missing)


def test_what_is_given_and_not_read_is_said(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "q.cqels").write_text(
        "SELECT ?v { STREAM <urn:a> [NOW] { ?s <urn:v> ?v } GRAPH <urn:g> { ?s ?p ?o } }"
    )
    (folder / "a.ndjson").write_text(element(1000, "<urn:s> <urn:v> <urn:x>"))
    (folder / "g.ttl").write_text("<urn:s> <urn:name> <urn:n> .")
    arguments = ["run", "q.cqels", "--stream", "urn:a=a.ndjson", "--static", "urn:g=g.ttl"]
    arguments += ["--stream", "urn:typo=a.ndjson", "--static", "urn:typo=g.ttl", "--static", "g.ttl"]
    assert main([*arguments, "--until", "2000"]) == 0
    told = capsys.readouterr()
    assert told.err.splitlines() == [
        "# warning: the query does not read the stream urn:typo of --stream; it reads <urn:a>",
        "# warning: no part of the query reads the graph <urn:typo>, so --static urn:typo=g.ttl is not used",
        "# warning: no part of the query reads the default graph, so --static g.ttl is not used",
    ]
    assert len(told.out.splitlines()) == 1
    assert main([*arguments, "--strict"]) == 1


def test_streams_of_a_variable_and_all_graphs_are_never_unread(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "q.cqels").write_text(
        "SELECT ?v ?g { ?any <urn:streams> ?stream STREAM ?stream [NOW] { ?s <urn:v> ?v } "
        "GRAPH ?g { ?s ?p ?o } }"
    )
    (folder / "a.ndjson").write_text(element(1000, "<urn:s> <urn:v> <urn:x>"))
    (folder / "g.ttl").write_text("<urn:s> <urn:streams> <urn:a> .")
    arguments = ["--stream", "urn:a=a.ndjson", "--static", "g.ttl", "--static", "urn:any=g.ttl", "--strict"]
    assert main(["run", "q.cqels", *arguments]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("late", "rows"), [(None, [1, 2, 3, 9]), ("admit", [1, 2, 3, 9]), ("drop", [3, 9]), ("error", None)]
)
def test_late_elements_of_a_recording(
    folder: Path, capsys: pytest.CaptureFixture[str], late: str | None, rows: list[int] | None
) -> None:
    (folder / "q.cqels").write_text("SELECT ?v { STREAM <urn:a> [NOW] { ?s <urn:v> ?v } }")
    times = (4_000, 1_000, 2_000, 3_000, 9_000)
    (folder / "a.ndjson").write_text(
        "\n".join(element(at, f"<urn:s> <urn:v> <urn:{at // 1000}>") for at in times)
    )
    arguments = ["q.cqels", "--stream", "urn:a=a.ndjson", "--option", "lateness=1s", "--until", "9000"]
    arguments += [] if late is None else ["--option", f"late={late}"]
    if rows is None:
        assert main(["run", *arguments]) == 1
        told = capsys.readouterr().err
        assert (
            "an element of <urn:a> of 1970-01-01T00:00:01Z is late: the watermark is 1970-01-01T00:00:03Z"
            in told
        )
        return
    assert main(["run", *arguments, "--format", "rows"]) == 0
    told = capsys.readouterr()
    shown = [int(line.split()[-1].strip("<urn:>")) for line in told.out.splitlines()]
    assert sorted(shown) == sorted({*rows, 4})
    assert ("2 late elements were dropped from <urn:a>" in told.err) == (late == "drop")
    assert main(["run", *arguments, "--option", "late=sometimes"]) != 0


@pytest.mark.parametrize(
    "option", ["report=on-window-close", 'report={"periodic": "1s"}', "bounds=open-closed", "non_empty=true"]
)
def test_run_takes_the_options_that_a_server_takes(
    folder: Path, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    (folder / "q.rspql").write_text(
        "SELECT ?v FROM NAMED WINDOW <urn:w> ON <urn:a> [RANGE PT2S STEP PT1S] "
        "WHERE { WINDOW <urn:w> { ?s <urn:v> ?v } }"
    )
    (folder / "a.ndjson").write_text(
        "\n".join(element(at, f"<urn:s> <urn:v> <urn:{at}>") for at in (0, 500, 1000, 2500, 9000))
    )
    lines = run(capsys, "q.rspql", "--stream", "urn:a=a.ndjson", "--option", option)
    assert lines and main(["run", "q.rspql", "--option", option.replace("=", "=x", 1) + "y"]) != 0


def test_the_ending_of_the_file_is_the_dialect() -> None:
    for line, expected in (
        ("q.cqels", {"dialect": "cqels"}),
        ("q.rspql --output istream", {"dialect": "rspql", "output": "istream"}),
        ("q.csparql --dialect cqels", {"dialect": "cqels"}),
        ("q.rq --option lateness=2s --option bounds=closed", {"lateness": "2s", "bounds": "closed"}),
    ):
        assert registration_options(build_parser("run").parse_args(["run", *line.split()])) == expected
