"""What the commands of a server's clients do, and what they say."""

from __future__ import annotations

import bz2
import gzip
import json
import os
import pty
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import IO

import pytest
import zstandard

from quadrill.app.cli import main
from tests.app.conftest import LiveServer, Start
from tests.program import Program, run

QUERY = "SELECT ?s ?o WHERE { STREAM <http://localhost/r> [NOW] { ?s <urn:v> ?o } }"
NAMED = """REGISTER RSTREAM <http://e/own> AS SELECT ?s FROM NAMED WINDOW <http://e/w> ON <http://localhost/r>
[RANGE PT1M STEP PT1M] WHERE { WINDOW <http://e/w> { ?s <urn:v> [] } }"""
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def server(start_server: Start, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> LiveServer:
    """A server that the environment names; the working folder is an empty one."""
    live = start_server()
    monkeypatch.setenv("QUADRILL_SERVER", live.url.removeprefix("http://"))
    monkeypatch.chdir(tmp_path)
    return live


def test_an_update_and_a_load_say_what_they_did(server: LiveServer, tmp_path: Path, capsys: Capture) -> None:
    assert main(["update", "INSERT DATA { <urn:a> <urn:b> 1, 2 }"]) == 0
    assert capsys.readouterr().err == "2 quads added, 0 removed, version 1\n"
    (tmp_path / "change.ru").write_text(
        "DELETE DATA { <urn:a> <urn:b> 1 }; INSERT DATA { <urn:c> <urn:d> 3 }"
    )
    assert main(["update", "change.ru", "--json"]) == 0
    told = capsys.readouterr()
    assert (json.loads(told.out), told.err) == ({"version": 2, "added": 1, "removed": 1}, "")
    assert main(["update", "DELETE DATA { <urn:x> <urn:x> 1 }"]) == 0
    assert capsys.readouterr().err == "nothing changed, version 2\n"
    (tmp_path / "a.ttl").write_text("<urn:a> <urn:b> 2, 4 .")
    assert main(["load", "a.ttl"]) == 0
    assert capsys.readouterr().err == "loaded a.ttl: 1 quad added, 0 removed, version 3\n"
    assert main(["load", "a.ttl", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"file": "a.ttl", "version": 3, "added": 0, "removed": 0}


@pytest.mark.parametrize("packed", [gzip.open, bz2.open, zstandard.open])
def test_packed_files_are_loaded(
    server: LiveServer, tmp_path: Path, capsys: Capture, packed: Callable[..., IO[bytes]]
) -> None:
    name = {gzip.open: "a.ttl.gz", bz2.open: "a.ttl.bz2"}.get(packed, "a.ttl.zst")
    with packed(tmp_path / name, "wb") as file:
        file.write(b"<urn:a> <urn:b> 2, 4 .")
    assert main(["load", name, "--graph", "urn:g"]) == 0
    assert capsys.readouterr().err == f"loaded {name}: 2 quads added, 0 removed, version 1\n"


def test_answers_have_the_format_of_their_file(server: LiveServer, tmp_path: Path, capsys: Capture) -> None:
    server.update("INSERT DATA { <urn:a> <urn:b> 1 }")
    (tmp_path / "all.rq").write_text("SELECT ?o { ?s ?p ?o }")
    assert main(["query", "all.rq", "--to", "all.csv"]) == 0
    assert (tmp_path / "all.csv").read_bytes() == b"o\r\n1\r\n"
    assert main(["query", "CONSTRUCT { ?s ?p ?o } WHERE { ?s ?p ?o }", "--to", "all.nt"]) == 0
    assert (tmp_path / "all.nt").read_text().startswith("<urn:a> <urn:b> ")
    assert main(["query", "all.rq", "--to", "all.xls"]) == 2
    assert "names no known format" in capsys.readouterr().err
    assert main(["query", "SELECT {", "--to", "all.csv"]) == 1
    assert (tmp_path / "all.csv").read_bytes() == b"o\r\n1\r\n", "what was there stays"


def test_a_query_is_named_like_its_file(server: LiveServer, tmp_path: Path, capsys: Capture) -> None:
    for name, text in (("alert.cqels", QUERY), ("my query.rq", QUERY), ("other.rspql", NAMED)):
        (tmp_path / name).write_text(text)
    for name, registered in (("alert.cqels", "alert"), ("my query.rq", "my-query"), ("other.rspql", "own")):
        assert main(["register", name]) == 0
        assert capsys.readouterr().out == f"{registered} registered\n"
    assert main(["register", "alert.cqels"]) == 0
    assert capsys.readouterr().out == "alert same\n"
    (tmp_path / "alert.cqels").write_text(QUERY.replace("[NOW]", "[RANGE 1s]"))
    assert main(["register", "alert.cqels"]) == 1
    assert "register --replace" in capsys.readouterr().err
    assert main(["register", "alert.cqels", "--replace"]) == 0
    assert main(["register", "alert.cqels", "--name", "second"]) == 0
    assert "second registered" in capsys.readouterr().out


def test_a_query_is_paused_resumed_and_refreshed(server: LiveServer, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "q.cqels").write_text(
        "SELECT ?s ?n WHERE { STREAM <http://localhost/r> [NOW] { ?s <urn:v> ?o } ?s <urn:name> ?n }"
    )
    assert main(["register", "q.cqels"]) == 0
    assert main(["pause", "q"]) == 0
    assert capsys.readouterr().err.endswith("q is paused\n")
    assert main(["queries", "q"]) == 0
    assert capsys.readouterr().out.splitlines()[2].split()[:2] == ["q", "paused"]
    assert main(["resume", "q"]) == 0 and main(["refresh", "q"]) == 0
    assert capsys.readouterr().err == "q is running\nq is refreshed: 1 static part with 0 rows\n"
    assert main(["pause", "q", "nobody"]) == 1
    assert "nobody" in capsys.readouterr().err


def test_dead_letters_are_listed_and_tried_again(server: LiveServer, tmp_path: Path, capsys: Capture) -> None:
    for name, at in (("new", 9000), ("old", 1000)):
        line = json.dumps({"at": at, "data": f"<urn:{name}> <urn:v> <urn:x> ."})
        (tmp_path / f"{name}.ndjson").write_text(line + "\n")
    assert main(["push", "r", "new.ndjson"]) == 0 and main(["push", "r", "old.ndjson"]) == 1
    assert main(["streams"]) == 0
    assert "http://localhost/r" in capsys.readouterr().out
    assert main(["streams", "dead-letters", "http://localhost/r"]) == 0
    row = capsys.readouterr().out.splitlines()[2]
    assert "late" in row and "1970-01-01T00:00:01Z" in row and "<urn:old>" in row
    assert main(["streams", "retry", "r"]) == 2
    assert main(["streams", "retry", "r", row.split()[0]]) == 0
    assert main(["streams", "dead-letters", "r", "--json"]) == 0
    assert capsys.readouterr().out == ""
    assert main(["streams", "heartbeat", "r", "20000", "--wait"]) == 0
    assert "the watermark of r is at 1970-01-01T00:00:20Z" in capsys.readouterr().err
    assert main(["streams", "show", "r"]) == 0
    assert "watermark " in capsys.readouterr().out


def test_a_feed_is_shown_as_rows_as_recordings_are(
    server: LiveServer, tmp_path: Path, capsys: Capture
) -> None:
    (tmp_path / "q.cqels").write_text(QUERY)
    (tmp_path / "r.ndjson").write_text(json.dumps({"at": 1000, "data": '<urn:a> <urn:v> "x" .'}) + "\n")
    assert main(["register", "q.cqels"]) == 0 and main(["push", "r", "r.ndjson", "--wait"]) == 0
    capsys.readouterr()
    assert main(["run", "q.cqels", "--stream", "r=r.ndjson", "--format", "rows"]) == 0
    recorded = capsys.readouterr().out
    assert main(["watch", "q", "--from", "0", "--count", "1", "--format", "rows"]) == 0
    assert capsys.readouterr().out == recorded == "+  1970-01-01T00:00:01Z  <urn:a>  x\n"
    assert main(["watch", "q", "--from", "0", "--count", "1", "--json"]) == 0
    event = json.loads(capsys.readouterr().out)
    assert (event["id"], event["event"], event["data"]["at"]) == (1, "insert", 1000)


def test_dead_letters_are_limited_to_the_newest_ones(
    server: LiveServer, tmp_path: Path, capsys: Capture
) -> None:
    rows = [{"at": at, "data": "<urn:a> <urn:v> <urn:x> ."} for at in (99_000, *range(1, 121))]
    # Elements of one push are sorted by time, so the newest one is pushed first.
    (tmp_path / "first.ndjson").write_text(json.dumps(rows[0]))
    (tmp_path / "r.ndjson").write_text("".join(json.dumps(row) + "\n" for row in rows[1:]))
    (tmp_path / "q.cqels").write_text(QUERY)
    assert main(["register", "q.cqels"]) == 0 and main(["push", "r", "first.ndjson", "--wait"]) == 0
    assert main(["push", "r", "r.ndjson", "--wait"]) == 1
    capsys.readouterr()
    listed = ["streams", "dead-letters", "r", "--json"]
    for limit, first, warning in (
        ([], 21, "warning: 20 older dead letters left out; --limit 0 lists all\n"),
        (["--limit", "2"], 119, "warning: 118 older dead letters left out; --limit 0 lists all\n"),
        (["--limit", "0"], 1, ""),
    ):
        assert main([*listed, *limit]) == 0
        told = capsys.readouterr()
        times = [json.loads(line)["at"] for line in told.out.splitlines()]
        assert (times, told.err) == (list(range(first, 121)), warning)
    future = 10**13
    (tmp_path / "far.ndjson").write_text(json.dumps(rows[0] | {"at": future}))
    assert main(["push", "r", "far.ndjson"]) == 1
    assert "is more than 1 d ahead of the clock" in capsys.readouterr().err


def test_watched_rows_have_columns_short_iris_and_unbound_cells_and_are_counted(
    server: LiveServer, tmp_path: Path, capsys: Capture
) -> None:
    (tmp_path / "q.cqels").write_text(
        "PREFIX ex: <http://e/> SELECT ?s ?o ?n { STREAM <http://localhost/r> [NOW] { ?s ex:v ?o } "
        "OPTIONAL { ?s ex:name ?n } }"
    )
    statements = '<http://e/a.b> <http://e/v> "" .\n<http://e/c/d> <http://e/v> <http://other/x> .'
    (tmp_path / "r.ndjson").write_text(json.dumps({"at": 1000, "data": statements}) + "\n")
    server.client.post("/prefixes?prefix=other&uri=http://other/")
    server.client.post("/prefixes?prefix=longer&uri=http://e/c/")
    assert main(["update", 'INSERT DATA { <http://e/a.b> <http://e/name> "Ada" }']) == 0
    assert main(["register", "q.cqels"]) == 0 and main(["push", "r", "r.ndjson", "--wait"]) == 0
    capsys.readouterr()
    assert main(["watch", "q", "--from", "0", "--count", "2", "--format", "rows", "--ids"]) == 0
    told = capsys.readouterr()
    time = "1970-01-01T00:00:01Z"
    assert sorted(told.out.splitlines()) == [
        f'1 +  {time}  ex:a.b  ""  Ada',
        f"1 +  {time}  longer:d  other:x  UNDEF",
    ]
    assert told.err == "#  id  time  ?s  ?o  ?n\n"
    assert main(["watch", "q", "--from", "0", "--count", "1", "--format", "rows"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1
    assert main(["watch", "q", "--from", "0", "--count", "1", "--format", "events"]) == 0
    (event,) = capsys.readouterr().out.splitlines()
    assert len(json.loads(event.partition(" ")[2])["results"]["bindings"]) == 2
    arguments = ["run", "q.cqels", "--stream", "r=r.ndjson", "--format", "rows"]
    assert main(arguments) == 0
    assert f'+  {time}  ex:a.b  ""  UNDEF' in capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(
    ("line", "plain"), [("queries", False), ("streams", False), ("watch q --from 0 --count 1", True)]
)
def test_a_terminal_gets_what_fits_it(server: LiveServer, tmp_path: Path, line: str, plain: bool) -> None:
    (tmp_path / "q.cqels").write_text(QUERY)
    (tmp_path / "r.ndjson").write_text(json.dumps({"at": 1000, "data": '<urn:a> <urn:v> "x" .'}) + "\n")
    assert main(["register", "q.cqels"]) == 0 and main(["push", "r", "r.ndjson", "--wait"]) == 0
    coloured = on_terminal(line.split())
    assert ("\x1b[32m" in coloured) == (line == "queries"), "a state has a colour"
    shown = on_terminal(line.split(), NO_COLOR="1")
    assert "\x1b[3" not in shown
    assert all(len(row) <= 80 for row in re.sub(r"\x1b\[[0-9;]*m", "", shown).splitlines())
    assert ("─" in shown) != plain
    assert not plain or shown.startswith("+  1970-01-01T00:00:01Z")


def test_a_terminal_is_told_how_much_of_a_file_was_sent(server: LiveServer, tmp_path: Path) -> None:
    line = "<http://e/s> <http://e/p> <http://e/o> .\n"
    (tmp_path / "large.nt").write_text(line * (3 * 2**20 // len(line)))
    shown = on_terminal(["load", "large.nt"], errors=True)
    assert "sent" in shown and "MB" in shown
    assert "loaded large.nt: 1 quad added, 0 removed, version 1" in shown


def on_terminal(arguments: list[str], *, errors: bool = False, **environment: str) -> str:
    """What a command prints on a terminal of 80 columns, on standard error too where ``errors`` says so."""
    ours, theirs = pty.openpty()
    fixed = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR")}
    process = Program(
        *arguments,
        stdout=theirs,
        stderr=theirs if errors else subprocess.DEVNULL,
        env=fixed | {"COLUMNS": "80", "LINES": "24", "TERM": "xterm"} | environment,
    )
    os.close(theirs)
    pieces = []
    try:
        while piece := os.read(ours, 4096):
            pieces.append(piece)
    except OSError:
        pass  # Linux says so that the other side is closed
    os.close(ours)
    assert process.wait(timeout=30) == 0
    return b"".join(pieces).decode().replace("\r\n", "\n")


def test_completion_knows_commands_options_and_names(server: LiveServer, tmp_path: Path) -> None:
    (tmp_path / "alert.cqels").write_text(QUERY)
    assert main(["register", "alert.cqels"]) == 0
    assert set(completed("quadrill que")) == {"query", "queries"}
    assert "--snapshot" in completed("quadrill watch --s")
    assert completed("quadrill watch al") == ["alert"]
    assert "heartbeat" in completed("quadrill streams h")


def completed(line: str) -> list[str]:
    """How a shell is told that a line can go on."""
    environment = os.environ | {
        "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_IFS": "\n",
        "_ARGCOMPLETE_STDOUT_FILENAME": "answer",
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
    }
    run(env=environment)
    return [each.strip() for each in Path("answer").read_text().split("\n") if each.strip()]


def test_a_server_with_tokens_says_how_to_give_one(start_server: Start, capsys: Capture) -> None:
    server = start_server(token="a-secret-of-some-length")
    assert main(["queries", "--server", server.url]) == 1
    assert "Hint: Give one by --token or the variable QUADRILL_TOKEN" in capsys.readouterr().err
    assert main(["queries", "--server", server.url, "--token", "a-secret-of-some-length"]) == 0


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_is_told_how_to_ask(shell: str, capsys: Capture) -> None:
    assert main(["completion", shell]) == 0
    told = capsys.readouterr().out
    assert "_ARGCOMPLETE" in told and "quadrill" in told
