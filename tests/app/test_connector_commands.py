"""`quadrill sources`, `source`, `sinks` and `sink` against a real server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from quadrill.app.cli import main
from tests.app.conftest import Start
from tests.app.test_feed_streams import until


def test_a_source_from_declaration_to_deletion(
    start_server: Start, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server = start_server(source_folders=(str(tmp_path),))
    at = ["--server", server.url]
    log = tmp_path / "log.nt"
    log.write_text("<urn:a> <urn:p> <urn:o> .\nnonsense\n")
    declaration = tmp_path / "it.json"
    declaration.write_text(json.dumps({"kind": "file", "stream": "http://e/s", "path": "elsewhere"}))
    assert (
        main(["source", *at, "it", "--file", str(declaration), "--set", f"path={log}", "--set", "batch=7"])
        == 0
    )
    told = capsys.readouterr()
    assert "it declared" in told.err and json.loads(told.out)["batch"] == 7
    until(lambda: server.client.get("/sources/it").json()["refused"] == 1)
    assert main(["source", *at, "it", "--dead-letters"]) == 0
    assert json.loads(capsys.readouterr().out)["record"] == "nonsense"
    assert main(["sources", *at]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:4] == ["name", "kind", "state", "health"] and lines[2].split()[:2] == [
        "it",
        "file",
    ]
    assert main(["sources", *at, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["taken"] == 1
    assert main(["source", *at, "it", "--stop"]) == 0
    assert json.loads(capsys.readouterr().out)["state"] == "stopped"
    assert main(["source", *at, "it", "--start"]) == 0
    assert main(["source", *at, "it", "--delete"]) == 0
    assert main(["source", *at, "it"]) == 1
    assert "there is no source it" in capsys.readouterr().err


def test_wrong_declarations_are_told(
    start_server: Start, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    at = ["--server", start_server().url]
    (tmp_path / "bad.json").write_text("{")
    assert main(["sink", *at, "it", "--file", str(tmp_path / "bad.json")]) == 1
    assert "is not valid JSON, line 1" in capsys.readouterr().err
    assert main(["sink", *at, "it", "--set", "kind"]) == 2
    assert main(["sink", *at, "it", "--set", "kind=pigeon"]) == 1
    assert "no sink of the kind 'pigeon'" in capsys.readouterr().err
    assert main(["sinks", *at]) == 0
