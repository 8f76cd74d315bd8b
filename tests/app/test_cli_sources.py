"""Where ``export`` and ``backup`` take the data from, and what ``restore`` and ``serve --paused`` accept."""

from __future__ import annotations

import argparse
import io
import socket
import subprocess
import tarfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from quadrill.app import running
from quadrill.app.cli import main
from quadrill.app.commands.arguments import OfflineError
from quadrill.app.commands.connection import ServerConnection, ServerError
from quadrill.app.commands.offline import open_source
from quadrill.app.config import Settings
from quadrill.store.quads.quad_store import QuadStore
from tests.app.conftest import Start
from tests.program import Program

QUAD = "INSERT DATA { <urn:a> <urn:p> 1 }"


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("QUADRILL_SERVER", "QUADRILL_DATA"):
        monkeypatch.delenv(name, raising=False)


def options(**given: str) -> argparse.Namespace:
    return argparse.Namespace(**{"data": None, "config": None, "server": None, "token": None, **given})


def free_address() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}/"


@pytest.mark.always("False")
@pytest.mark.parametrize("variable", [False, True])
def test_a_folder_in_use_is_refused_and_no_other_server_asked(
    start_server: Start,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    *,
    variable: bool,
) -> None:
    start_server(data=str(tmp_path / "data"))
    other = start_server()
    if variable:
        monkeypatch.setenv("QUADRILL_SERVER", other.url)
    (tmp_path / "own.toml").write_text(f'data = "{tmp_path / "data"}"\n')
    # Each waits a while for the folder: all at once.
    commands = [
        [*command, *place]
        for place in (["--data", str(tmp_path / "data")], ["--config", str(tmp_path / "own.toml")])
        for command in (["export", str(tmp_path / "all.nq")], ["backup", str(tmp_path / "saved")])
    ]
    with ThreadPoolExecutor(len(commands)) as pool:
        assert list(pool.map(main, commands)) == [1] * len(commands)
    told = capsys.readouterr().err
    assert told.count("in use by another process (process ") == len(commands)
    assert told.count("Hint: stop it, or ask it with --server URL") == len(commands)
    assert not (tmp_path / "all.nq").exists()
    assert not (tmp_path / "saved").exists()


def test_the_variable_names_the_server_of_an_export_and_a_backup(
    start_server: Start, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with QuadStore.open(tmp_path / "mine"):
        pass
    monkeypatch.setenv("QUADRILL_DATA", str(tmp_path / "mine"))
    server = start_server(data=str(tmp_path / "data"))
    server.update(QUAD)
    monkeypatch.setenv("QUADRILL_SERVER", server.url)
    assert main(["export", str(tmp_path / "all.nq")]) == 0
    assert "<urn:a>" in (tmp_path / "all.nq").read_text()
    assert main(["backup", str(tmp_path / "saved")]) == 0
    assert main(["restore", str(tmp_path / "saved"), "--data", str(tmp_path / "new")]) == 0
    with QuadStore.open(tmp_path / "new") as store:
        assert store.reader.quad_count == 1
    # The server named is meant, also where it does not answer.
    monkeypatch.setenv("QUADRILL_SERVER", free_address())
    assert main(["export", str(tmp_path / "other.nq")]) == 1
    # A folder that is given comes before the variable.
    assert main(["export", "--data", str(tmp_path / "mine"), str(tmp_path / "other.nq")]) == 0


def test_without_a_name_the_default_server_comes_before_the_default_folder(
    start_server: Start, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    nobody = free_address()
    with pytest.raises(OfflineError, match="no server answers at .*there is no data in the folder") as caught:
        open_source(options(), nobody)
    assert "--server" in str(caught.value.hint)
    assert "--data" in str(caught.value.hint)
    with QuadStore.open(tmp_path / "quadrill"):
        pass
    found = open_source(options(), nobody)
    assert isinstance(found, QuadStore)
    found.close()
    assert f"using the data folder {tmp_path / 'quadrill'}" in capsys.readouterr().err
    server = start_server()
    asked = open_source(options(), server.url)
    assert isinstance(asked, ServerConnection)
    asked.close()
    assert f"asking the server at {server.url}" in capsys.readouterr().err
    with pytest.raises(ServerError, match="there is no resource"):
        open_source(options(), f"{server.url}/nothing/")


def test_the_archive_that_a_server_sent_is_restored(start_server: Start, tmp_path: Path) -> None:
    server = start_server(data=str(tmp_path / "data"))
    server.update(QUAD)
    (tmp_path / "backup.tar").write_bytes(server.client.post("/backups").content)
    assert main(["restore", str(tmp_path / "backup.tar"), "--data", str(tmp_path / "new")]) == 0
    with QuadStore.open(tmp_path / "new") as store:
        assert store.reader.quad_count == 1
    assert sorted(each.name for each in tmp_path.iterdir()) == ["backup.tar", "data", "new"]


@pytest.mark.parametrize("kind", ["text", "outside", "link", "cut", "other"])
def test_what_is_no_archive_of_a_backup_leaves_nothing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, kind: str
) -> None:
    file = tmp_path / "backup.tar"
    names = {"outside": "../out", "link": "quads"}
    member = tarfile.TarInfo(names.get(kind, "file"))
    member.size = 0 if kind == "link" else 2000
    if kind == "link":
        member.type, member.linkname = tarfile.SYMTYPE, "/etc"
    with tarfile.open(file, "w") as archive:
        archive.addfile(member, io.BytesIO(bytes(member.size)))
    if kind == "cut":
        file.write_bytes(file.read_bytes()[:1500])
    if kind == "text":
        file.write_text("no archive")
    assert main(["restore", str(file), "--data", str(tmp_path / "new")]) == 1
    told = capsys.readouterr().err
    assert f"{file} is not a backup of Quadrill" in told
    assert "unpack it" in told
    assert [each.name for each in tmp_path.iterdir()] == ["backup.tar"]


@pytest.mark.always("file")
@pytest.mark.parametrize("folder", ["nodir", "file"])
def test_a_file_that_cannot_be_written_is_named_as_given(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, folder: str
) -> None:
    (tmp_path / "file").write_text("")
    with QuadStore.open(tmp_path / "data"):
        pass
    file = str(tmp_path / folder / "x.trig")
    assert main(["export", "--data", str(tmp_path / "data"), file]) == 1
    assert capsys.readouterr().err.startswith(f"quadrill: {file}: ")


def test_queries_to_pause_are_named_with_commas_or_repeats_and_unknown_ones_told(
    tmp_path: Path,
) -> None:
    data = str(tmp_path / "data")
    with running.serve(Settings(data=data, port=0)) as server:
        for name in "abc":
            text = "SELECT * WHERE { STREAM <http://localhost/r> [NOW] { ?s <urn:v> ?o } }"
            httpx.post(f"{server.url}queries", json={"name": name, "query": text}).raise_for_status()
    child = Program(
        "serve", "--data", data, "--port", "0", "--paused", "a, b", "--paused", "nosuch",
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert child.stdout is not None
        url = child.stdout.readline().split()[-1]
        rows = httpx.get(f"{url}queries").json()["queries"]
    finally:
        child.terminate()
        _, errors = child.communicate(timeout=20)
    assert {row["name"]: row["state"] for row in rows} == {"a": "paused", "b": "paused", "c": "running"}
    assert "no query nosuch to pause; there are: a, b, c" in errors
    assert "no query a" not in errors


def test_the_variable_for_the_data_folder_names_it_unless_a_server_is_named(
    start_server: Start, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    server = start_server()
    with QuadStore.open(tmp_path / "data") as store:
        store.writer.update(QUAD)
    monkeypatch.setenv("QUADRILL_DATA", str(tmp_path / "data"))
    source = open_source(options(), default=server.url)
    assert isinstance(source, QuadStore)
    with source:
        assert source.reader.quad_count == 1
    with_server = open_source(options(server=server.url), default=free_address())
    assert isinstance(with_server, ServerConnection)
    with_server.close()


def test_standard_input_without_a_format_is_told_what_it_is_taken_for(
    start_server: Start, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    server = start_server()
    piped = io.TextIOWrapper(io.BytesIO(b"<urn:a> <urn:b> <urn:c> ."))
    monkeypatch.setattr("sys.stdin", piped)
    assert main(["push", "--server", server.url, "r", "-", "--at", "1000"]) == 0
    assert "read as application/n-quads; --type names another" in capsys.readouterr().err
