"""``quadrill shapes``, and shapes in ``quadrill apply`` and ``quadrill dump``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.app.conftest import Start
from tests.app.test_apply import Client

PREFIXES = "@prefix sh: <http://www.w3.org/ns/shacl#> .\n@prefix : <http://e/> .\n"
NAMED = f"{PREFIXES}:Named sh:targetClass :P ; sh:property [ sh:path :name ; sh:minCount 1 ] .\n"
AGED = f"{PREFIXES}:Aged sh:targetClass :P ; sh:property [ sh:path :age ; sh:maxCount 1 ] .\n"
SECTIONS = '''
[shapes.reports]
mode = "warn"
data = ["http://e/report", "default"]
max_time = "20s"
text = """
@prefix sh: <http://www.w3.org/ns/shacl#> .
<http://e/Few> sh:targetClass sh:ValidationReport ; sh:property [ sh:path sh:result ; sh:maxCount 5 ] .
"""

[shapes.people]
file = "named.ttl"
into = "http://e/report"
max_results = 50
'''


@pytest.fixture
def client(start_server: Start, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Client:
    client = Client(start_server(), tmp_path, capsys)
    client.write(NAMED, "named.ttl")
    client.write(AGED, "aged.ttl")
    client.server.update("PREFIX : <http://e/> INSERT DATA { :a a :P ; :age 1, 2 . :b a :P ; :name 'b' }")
    return client


def test_shapes_are_put_listed_shown_reported_and_deleted(client: Client) -> None:
    named, aged = str(client.folder / "named.ttl"), str(client.folder / "aged.ttl")
    made = client.run("shapes", "put", "people", named, "--mode", "reject")
    assert (made.code, made.err) == (0, "people is ready: 1 result\n")
    both = client.run("shapes", "put", "people", named, aged, "--into", "http://e/report", "--json")
    assert (json.loads(both.out)["results"], json.loads(both.out)["mode"]) == (2, "watch")
    listed = client.run("shapes").out.splitlines()
    assert listed[0].split() == ["name", "state", "mode", "results", "data", "report", "cost", "error"]
    assert listed[-1].split()[:5] == ["people", "ready", "watch", "2", "http://e/report"]
    shown = client.run("shapes", "get", "people")
    assert ":Named" not in shown.out and "<http://e/Named> sh:targetClass <http://e/P>" in shown.out
    as_json = client.run("shapes", "get", "people", "--json")
    assert json.loads(as_json.out) == client.get("/shapes/people")
    report = client.run("shapes", "report", "people")
    assert report.code == 0 and report.out.count("a sh:ValidationResult") == 2
    lines = client.run("shapes", "report", "people", "--format", "nt", "--limit", "1").out.splitlines()
    assert len([line for line in lines if line.endswith("#ValidationResult> .")]) == 1
    assert "ValidationReport" in json.dumps(
        json.loads(client.run("shapes", "report", "people", "--json").out)
    )
    gone = client.run("shapes", "delete", "people", "--json")
    assert json.loads(gone.out) == {"deleted": "people"}
    missing = client.run("shapes", "get", "people")
    assert (missing.code, missing.err) == (1, "quadrill: there are no shapes people\n")


def test_put_takes_parameters_from_options_and_shapes_from_a_graph(client: Client) -> None:
    stored = client.server.client.put(
        "/store?graph=http://e/shapes", content=NAMED, headers={"Content-Type": "text/turtle"}
    )
    assert stored.status_code == 201
    options = ("--data", "default", "--data", "http://e/more", "--max-time", "3s", "--max-results", "7")
    put = client.run("shapes", "put", "people", "--graph", "http://e/shapes", *options)
    assert (put.code, put.err) == (0, "people is ready: 1 result\n")
    described = client.get("/shapes/people")
    given = {name: described[name] for name in ("graph", "data", "max_time", "max_results")}
    assert given == {
        "graph": "http://e/shapes",
        "data": ["default", "http://e/more"],
        "max_time": "3s",
        "max_results": 7,
    }
    failed = client.run("shapes", "put", "small", str(client.folder / "named.ttl"), "--max-results", "0")
    assert failed.code == 1
    assert failed.err.startswith("small is failed: ") and "max_results" in failed.err
    assert client.run("shapes", "get", "small").code == 1


@pytest.mark.parametrize(
    ("arguments", "code", "part"),
    [
        (["put", "x"], 2, "need a FILE, or --graph"),
        (["put", "x", "FOLDER/named.ttl", "--graph", "urn:g"], 2, "need a FILE, or --graph"),
        (["put", "x", "FOLDER/none.ttl"], 1, "none.ttl: No such file"),
        (["put", "x", "FOLDER/none.ttl", "FOLDER/named.ttl"], 1, "none.ttl: No such file"),
        (["put", "x", "FOLDER/broken.ttl", "FOLDER/named.ttl"], 1, "broken.ttl: "),
        (["put", "x", "FOLDER/shapes.txt"], 2, "names no known format"),
        (["put", "x", "FOLDER/broken.ttl"], 1, "line 1"),
        (["put", "x", "FOLDER/named.ttl", "--into", "relative"], 1, "not an absolute IRI"),
        (["report", "x"], 1, "there are no shapes x"),
        (["report", "x", "--json", "--format", "nt"], 2, "two formats"),
        (["delete", "x"], 1, "there are no shapes x"),
    ],
)
def test_refusal_is_one_sentence(client: Client, arguments: list[str], code: int, part: str) -> None:
    client.write("<urn:a> <urn:b> ", "broken.ttl")
    client.write(NAMED, "shapes.txt")
    told = client.run("shapes", *(each.replace("FOLDER", str(client.folder)) for each in arguments))
    assert told.code == code, told.err
    assert part in told.err


def test_shapes_are_applied_dumped_and_applied_again(client: Client, start_server: Start) -> None:
    applied = client.apply(SECTIONS)
    assert applied.code == 0, applied.err
    assert applied.steps == [("create", "shapes.reports", []), ("create", "shapes.people", [])]
    assert client.get("/shapes/people")["results"] == 1
    assert client.apply(SECTIONS).actions == {"same"}
    dumped = client.run("dump").out
    assert dumped.startswith(
        '[shapes.people]\ninto = "http://e/report"\nmax_results = 50\ntext = """\n@prefix'
    )
    for form, name in (("toml", "dumped.toml"), ("yaml", "dumped.yaml")):
        text = client.run("dump", "--format", form).out
        assert client.apply(text, name=name).actions == {"same"}
        other = Client(start_server(), client.folder, client._capsys)
        assert other.apply(text, name=name).actions == {"create"}
        assert other.run("dump", "--format", form).out == text


def test_shapes_of_a_graph_are_dumped_with_its_name(client: Client) -> None:
    client.server.client.put(
        "/store?graph=http://e/shapes", content=NAMED, headers={"Content-Type": "text/turtle"}
    )
    assert client.apply('[shapes.people]\ngraph = "http://e/shapes"\n').code == 0
    assert client.run("dump").out == '[shapes.people]\ngraph = "http://e/shapes"\n'
    assert client.apply(client.run("dump").out).actions == {"same"}


def test_changed_shapes_are_replaced_and_undeclared_ones_pruned(client: Client) -> None:
    client.apply(SECTIONS)
    changed = SECTIONS.replace("max_results = 50", "max_results = 60").replace('"20s"', '"20000ms"')
    dry = client.apply(changed, "--dry-run")
    assert dry.steps == [("same", "shapes.reports", []), ("change", "shapes.people", ["max_results"])]
    assert client.get("/shapes/people")["max_results"] == 50
    client.write(AGED, "named.ttl")
    assert client.apply(SECTIONS, "--dry-run").steps[1] == ("change", "shapes.people", ["text"])
    assert client.apply(changed).code == 0
    described = client.get("/shapes/people")
    assert (described["max_results"], "http://e/Aged" in described["text"]) == (60, True)
    pruned = client.apply("[shapes]\n", "--prune")
    assert pruned.code == 0, pruned.err
    assert pruned.steps == [("remove", "shapes.reports", []), ("remove", "shapes.people", [])]
    assert client.get("/shapes") == {"shapes": []}


def test_rules_are_applied_before_shapes_and_removed_after_them(client: Client) -> None:
    text = """
[shapes.people]
data = ["urn:inferred", "default"]
mode = "reject"
file = "named.ttl"

[rules.schema]
include = ["rdfs"]
into = "urn:inferred"
"""
    assert client.apply(text).steps == [("create", "rules.schema", []), ("create", "shapes.people", [])]
    pruned = client.apply("[shapes]\n[rules]\n", "--prune")
    assert (pruned.code, pruned.err) == (0, "")
    assert pruned.steps == [("remove", "shapes.people", []), ("remove", "rules.schema", [])]


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ('[shapes.x]\nmode = "warn"\n', "needs one of text"),
        ('[shapes.x]\ntext = ""\nfile = "named.ttl"\n', "needs one of text"),
        ('[shapes.x]\nfile = "none.ttl"\n', "shapes.x: file none.ttl"),
        ('[shapes.x]\nfile = "shapes.txt"\n', "names no known format"),
        ('[shapes.x]\ntext = "a b"\n', "shapes.x: "),
        ('[shapes.x]\ntext = ""\ntype = "text/turtle"\n', "no member 'type'"),
        ('[shapes.x]\ngraph = "urn:none"\n', "shapes.x: there is no graph"),
        ('[shapes.x]\nfile = "named.ttl"\ncolour = "red"\n', "colour"),
        ('[shapes.x]\nfile = "named.ttl"\nmode = "stop"\n', "mode must be one of"),
    ],
)
def test_wrong_declaration_is_refused_before_anything_is_done(client: Client, text: str, part: str) -> None:
    client.write(NAMED, "shapes.txt")
    told = client.apply(text, "--dry-run")
    assert told.code == 1
    assert part in told.err
