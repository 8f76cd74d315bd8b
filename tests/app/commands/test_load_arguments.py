"""``quadrill load`` looks at all its arguments before the first commit."""

from __future__ import annotations

from pathlib import Path

import pytest

from quadrill.app.cli import main
from tests.app.conftest import LiveServer


@pytest.fixture
def folder(tmp_path: Path, server: LiveServer, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("QUADRILL_SERVER", server.url)
    for name in ("plant.ttl", "notes.txt"):
        (tmp_path / name).write_text("<urn:a> <urn:b> <urn:c> .")
    return tmp_path


@pytest.mark.parametrize(
    ("wrong", "code", "told"),
    [
        ("http://x/g", 2, "http:/x/g is an address, not a file; nothing was loaded"),
        ("urn:x:/g", 2, "is an address, not a file"),
        ("missing.ttl", 1, "there is no file missing.ttl; nothing was loaded"),
        ("notes.txt", 2, "the ending of notes.txt names no known format"),
        ("notes.txt.gz", 1, "there is no file notes.txt.gz"),
    ],
)
def test_a_wrong_argument_stops_a_load_before_its_first_commit(
    server: LiveServer, folder: Path, capsys: pytest.CaptureFixture[str], wrong: str, code: int, told: str
) -> None:
    version = server.services.store.reader.version
    for arguments in ([wrong, "plant.ttl"], ["plant.ttl", wrong]):
        assert main(["load", *arguments]) == code
        assert told in capsys.readouterr().err
        assert server.services.store.reader.version == version
    assert main(["load", "plant.ttl"]) == 0
    assert server.services.store.reader.version == version + 1


def test_an_address_names_the_option_for_the_graph(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["load", "plant.ttl", "http://x/g"]) == 2
    assert "--graph IRI names the graph of all files." in capsys.readouterr().err
    assert main(["load", "plant.ttl", "--graph", "http://x/g"]) == 0


def test_a_file_of_any_ending_loads_by_its_type(folder: Path) -> None:
    assert main(["load", "notes.txt", "plant.ttl", "--type", "text/turtle"]) == 0
