"""The command ``quadrill validate``: exit codes, reports in each format, and what is wrong with files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyoxigraph import BlankNode, Dataset, NamedNode, RdfFormat, parse

from quadrill.app.cli import main

SH = "http://www.w3.org/ns/shacl#"
DATA = """
@prefix ex: <http://example.org/> .
ex:ann a ex:Person ; ex:ssn "12" .
ex:bob a ex:Person .
"""
SHAPES = """
@prefix ex: <http://example.org/> .
@prefix sh: <http://www.w3.org/ns/shacl#> .
ex:PersonShape sh:targetClass ex:Person ; sh:property [
  sh:path ex:ssn ; sh:minCount 1 ; sh:pattern "^[0-9]{3}$" ; sh:severity SEVERITY ] .
"""
TEXT = """\
Validation Report
Conforms: False
Results (2):
Constraint Violation in MinCountConstraintComponent (http://www.w3.org/ns/shacl#MinCountConstraintComponent):
\tSeverity: sh:Violation
\tSource Shape: SHAPE
\tFocus Node: ex:bob
\tResult Path: ex:ssn
\tMessage: <http://example.org/bob> has 0 values of <http://example.org/ssn>, but needs at least 1
Constraint Violation in PatternConstraintComponent (http://www.w3.org/ns/shacl#PatternConstraintComponent):
\tSeverity: sh:Violation
\tSource Shape: SHAPE
\tFocus Node: ex:ann
\tValue Node: Literal("12")
\tResult Path: ex:ssn
\tMessage: "12" does not match the pattern '^[0-9]{3}$'
""".replace(
    "SHAPE",
    '[ sh:minCount Literal("1", datatype=xsd:integer) ; sh:path ex:ssn ; sh:pattern Literal("^[0-9]{3}$") ; '
    "sh:severity sh:Violation ]",
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data.ttl").write_text(DATA)
    (tmp_path / "shapes.ttl").write_text(SHAPES.replace("SEVERITY", "sh:Violation"))
    (tmp_path / "warnings.ttl").write_text(SHAPES.replace("SEVERITY", "sh:Warning"))
    return tmp_path


def test_text_report_and_exit_code_of_violations(
    folder: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert main(["validate", "data.ttl", "--shapes", "shapes.ttl"]) == 1
    assert capfdbinary.readouterr().out.decode() == TEXT


def test_data_that_conforms_gives_0(folder: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    good = '<urn:x> a <http://example.org/Person> ; <http://example.org/ssn> "123" .'
    (folder / "good.ttl").write_text(good)
    assert main(["validate", "good.ttl", "--shapes", "shapes.ttl"]) == 0
    assert capfdbinary.readouterr().out == b"Validation Report\nConforms: True\n"


def test_warnings_can_be_allowed(folder: Path) -> None:
    assert main(["validate", "data.ttl", "--shapes", "warnings.ttl"]) == 1
    assert main(["validate", "data.ttl", "--shapes", "warnings.ttl", "--allow-warnings"]) == 0
    assert main(["validate", "data.ttl", "--shapes", "shapes.ttl", "--allow-warnings"]) == 1


def test_json_has_one_result_per_line(folder: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["validate", "data.ttl", "--shapes", "shapes.ttl", "--format", "json"]) == 1
    first, second = map(json.loads, capfdbinary.readouterr().out.splitlines())
    assert first["focusNode"] == "<http://example.org/ann>" and first["value"] == '"12"'
    assert first["path"] == "<http://example.org/ssn>" and first["severity"] == f"<{SH}Violation>"
    assert "value" not in second and second["constraint"] == f"<{SH}MinCountConstraintComponent>"


@pytest.mark.parametrize("name", ["ttl", "nt", "nq", "trig", "jsonld", "rdf"])
def test_report_in_each_rdf_format_is_the_same_graph(folder: Path, name: str) -> None:
    kind = RdfFormat.from_extension(name)
    assert kind is not None
    graphs = []
    for form in ("ttl", name):
        line = [
            "validate",
            "data.ttl",
            "--shapes",
            "shapes.ttl",
            "--format",
            form,
            "--output",
            f"report.{form}",
        ]
        assert main(line) == 1
        found = Dataset(parse(path=f"report.{form}", format=RdfFormat.from_extension(form)))
        graphs.append(
            {(each.predicate, each.object) for each in found if not isinstance(each.object, BlankNode)}
        )
        assert len(list(found.quads_for_predicate(NamedNode(f"{SH}result")))) == 2
    assert graphs[0] == graphs[1]


def test_files_of_several_formats_are_one_data_graph(folder: Path) -> None:
    (folder / "more.nt").write_text('<http://example.org/bob> <http://example.org/ssn> "123" .\n')
    line = [
        "validate",
        "data.ttl",
        "more.nt",
        "--shapes",
        "shapes.ttl",
        "--format",
        "json",
        "--output",
        "out",
    ]
    assert main(line) == 1
    assert len((folder / "out").read_text().splitlines()) == 1


def test_data_can_have_its_shapes_in_it(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (folder / "both.ttl").write_text(DATA + (folder / "shapes.ttl").read_text())
    assert main(["validate", "both.ttl"]) == 1
    assert main(["validate", "data.ttl"]) == 0
    assert "no shape has a target" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("shapes", "said"),
    [
        (
            "<urn:S> <http://www.w3.org/ns/shacl#minCount> 1 .",
            "sh:minCount of the shape <urn:S> is for property",
        ),
        ("<urn:S> .", "malformed Turtle at line 1"),
        ("<urn:S> <http://www.w3.org/ns/shacl#entailment> <urn:e> .", "sh:entailment"),
    ],
)
def test_shapes_that_cannot_be_used_give_2(
    folder: Path, capfd: pytest.CaptureFixture[str], shapes: str, said: str
) -> None:
    (folder / "bad.ttl").write_text(shapes)
    assert main(["validate", "data.ttl", "--shapes", "bad.ttl"]) == 2
    assert said in capfd.readouterr().err


def test_files_that_cannot_be_read_give_2(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", "no.ttl", "--shapes", "shapes.ttl"]) == 2
    assert main(["validate", "data.ttl", "--shapes", "no.ttl"]) == 2
    (folder / "data.xyz").write_text("x")
    assert main(["validate", "data.xyz", "--shapes", "shapes.ttl"]) == 2
    assert capfd.readouterr().err.count("quadrill: ") == 3
