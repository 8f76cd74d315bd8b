"""No command cuts a cell in a pipe: each prints the long values that it prints with --json, whole."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from quadrill.app.cli import COMMANDS, main
from tests.app.conftest import Start


def _long(word: str, length: int = 200) -> str:
    """A text of ``length`` characters that begins with a word and ends with a mark of its end."""
    return f"{word}{'x' * (length - len(word) - 3)}end"


def _iri(word: str) -> str:
    """An IRI of 200 characters, whose last segment is short enough for the name of a stream."""
    return _long(f"http://long.example/{word}/{'x' * 70}/")


STREAM, MAPPED, OTHER = _iri("stream"), _iri("mapped"), _iri("other")
CLASS, GRAPH, LABEL = _iri("class"), _iri("graph"), _long("label")
QUERY, FAMILY, SHAPES, SOURCE, SINK = (
    _long(word, 120) for word in ("query", "family", "shapes", "source", "sink")
)
PRINTS_NO_DATA = {"serve", "demo", "version", "completion"}
"""Commands that print no values of a store, a stream or a file."""

WALK: list[tuple[str, bool]] = [
    ("update INSERT", False),
    ("query SELECT", True),
    ("load names.ttl", False),
    (f"declare {MAPPED} --mapping mapping.rq", True),
    (f"map {MAPPED} record.json", True),
    (f"register q.cqels --name {QUERY}", True),
    (f"push {STREAM} r.ndjson --wait", True),
    (f"push {STREAM} late.ndjson", True),
    ("queries", True),
    (f"queries {QUERY}", True),
    (f"watch {QUERY} --from 0 --count 1", True),
    (f"watch {QUERY} --from 0 --count 1 --format rows", True),
    (f"explain {QUERY}", True),
    (f"explain {QUERY} --analyze", True),
    ("explain q.cqels", True),
    (f"pause {QUERY}", True),
    (f"resume {QUERY}", True),
    (f"refresh {QUERY}", True),
    (f"replay {QUERY}", False),
    ("streams", True),
    (f"streams show {STREAM}", True),
    (f"streams heartbeat {STREAM} 5000", True),
    (f"streams dead-letters {STREAM}", True),
    (f"streams declare {OTHER}", True),
    (f"streams drop {OTHER}", True),
    (f"source {SOURCE} --set kind=file --set stream={STREAM} --set path=FOLDER/log.nt", True),
    ("sources", True),
    (f"sink {SINK} --set kind=webhook --set url=http://127.0.0.1:9/ --set query={QUERY}", True),
    ("sinks", True),
    (f"rules put {FAMILY} grand.rq --into {GRAPH}", True),
    ("rules", True),
    (f"rules show {FAMILY}", True),
    (f"shapes put {SHAPES} shapes.ttl --mode watch", True),
    ("shapes", True),
    (f"shapes get {SHAPES}", True),
    (f"shapes report {SHAPES}", True),
    ("apply it.toml", True),
    ("dump", True),
    ("jobs", True),
    ("mirror --show", False),
    ("top --once --interval 0.1", True),
    ("export", True),
    ("backup saved", False),
    (f"drop {QUERY}", True),
    (f"run q.cqels --stream {STREAM}=r.ndjson --static names.ttl --format rows", True),
    ("validate names.ttl --shapes shapes.ttl", True),
    ("check --data saved", False),
    ("repair --drop-damaged --data saved", False),
    ("restore saved --data restored", False),
    ("migrate --data restored", False),
    (f"token add read --label {LABEL} --data restored", False),
    ("token list --data restored", True),
]
"""Command lines, and whether their output in a pipe has a value of 100 characters or more."""
_WITHOUT_JSON = ("run", "validate", "repair", "restore", "migrate", "token", "export", "backup", "drop")
"""Commands without --json, and those that cannot be executed twice."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    subject = _iri("subject")
    files = {
        "q.cqels": f"SELECT ?s ?o ?n WHERE {{ STREAM <{STREAM}> [RANGE 1h] "
        f"{{ ?s <{_iri('value')}> ?o }} OPTIONAL {{ ?s <{_iri('name')}> ?n }} }}",
        "names.ttl": f'<{subject}> a <{CLASS}> ; <{_iri("name")}> "{LABEL}" ; <urn:p> <{subject}> .',
        "r.ndjson": _element(1000, subject),
        "late.ndjson": _element(1, subject),
        "record.json": json.dumps({"a": _long("record")}),
        "mapping.rq": f"CONSTRUCT {{ <urn:s> <{_iri('value')}> ?a }} WHERE {{ }}",
        "grand.rq": "CONSTRUCT { ?x <urn:grand> ?z } WHERE { ?x <urn:p> ?y . ?y <urn:p> ?z }",
        "shapes.ttl": "@prefix sh: <http://www.w3.org/ns/shacl#> . "
        f"<{_iri('shape')}> a sh:NodeShape ; sh:targetClass <{CLASS}> ; "
        f"sh:property [ sh:path <{_iri('missing')}> ; sh:minCount 1 ; sh:message '{_long('message')}' ] .",
        "it.toml": f'[prefixes]\n{_long("prefix", 120)} = "{_iri("prefix")}"\n',
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside" / f"{_long('file', 120)}.nt").write_text("<urn:c> <urn:p> <urn:d> .\n")
    return tmp_path


def _element(at: int, subject: str) -> str:
    return json.dumps({"at": at, "data": f'<{subject}> <{_iri("value")}> "{LABEL}" .'}) + "\n"


def test_in_a_pipe_every_command_prints_its_long_values_whole(
    start_server: Start, folder: Path, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: Any
) -> None:
    server = start_server(
        data=str(folder / "data"),
        source_folders=(str(folder),),
        load_folders=(str(folder / "inside"),),
        remote_hosts=("127.0.0.1:9",),
    )
    monkeypatch.setenv("QUADRILL_SERVER", server.url)
    (name,) = (each.name for each in (folder / "inside").iterdir())
    assert main(["load", "--json", f"inside/{name}"]) == 0
    capfdbinary.readouterr()
    texts = {
        "INSERT": f'INSERT DATA {{ <urn:a> <{_iri("name")}> "{LABEL}" }}',
        "SELECT": f"SELECT ?s ?o {{ ?s <{_iri('name')}> ?o }}",
    }
    for line, shows in WALK:
        words = [texts.get(word, word) for word in line.replace("FOLDER", str(folder)).split()]
        assert main(words) in (0, 1), line
        told = capfdbinary.readouterr()
        printed = (told.out + told.err).decode()
        assert "…" not in printed, line
        values = set(_values(printed))
        assert all(value.endswith("end") for value in values), (line, values)
        assert bool(values) == shows, (line, printed)
        if words[0] in _WITHOUT_JSON or words[:2] == ["streams", "drop"]:
            continue
        main([*words, "--json"])
        documented = set(_values(capfdbinary.readouterr().out.decode()))
        assert all(value.endswith("end") for value in documented), line
        if told.out and words[0] in ("query", "queries", "streams", "sources", "sinks", "rules", "shapes"):
            assert values <= documented, (line, values - documented)
    asked = {line.split()[0] for line, _ in WALK}
    assert asked == {name for group in COMMANDS.values() for name in group} - PRINTS_NO_DATA


def _values(printed: str) -> Iterator[str]:
    """The values of 100 characters and more of an output: all words with the filling of `_long`."""
    for found in re.finditer(r"[A-Za-z0-9:/.]*x{60,}(?:end)?", printed):
        yield found[0]


def test_a_table_of_a_query_is_the_same_as_its_json(start_server: Start, tmp_path: Path) -> None:
    server = start_server()
    cells = [(_iri(f"s{number}"), _long(f"v{number}")) for number in range(3)]
    server.update("INSERT DATA { " + " ".join(f'<{s}> <urn:p> "{o}" .' for s, o in cells) + " }")
    command = [sys.executable, "-m", "quadrill.app.cli", "query", "SELECT * { ?s <urn:p> ?o }"]
    command += ["--server", server.url]
    table = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    answer = subprocess.run([*command, "--json"], capture_output=True, text=True, check=True).stdout
    rows = json.loads(answer)["results"]["bindings"]
    assert [line.split() for line in table[2:]] == [[f"<{r['s']['value']}>", r["o"]["value"]] for r in rows]
    assert sorted((r["s"]["value"], r["o"]["value"]) for r in rows) == cells
    assert max(map(len, table[:2])) <= 2 * 80 + 2
