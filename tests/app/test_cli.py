"""The command line, with servers as processes of their own."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from pyoxigraph import RdfFormat, parse

from quadrill.app.cli import main
from quadrill.app.commands import load
from quadrill.app.commands.connection import server_url
from quadrill.store.bulk.load import ENGINES
from quadrill.store.bulk.sources import SourceFile, open_source
from quadrill.store.errors import StoreUnwritableError
from quadrill.store.formats import guess_rdf_format
from quadrill.store.quads.quad_store import QuadStore
from quadrill.store.quads.reading import StoreReader
from tests.app.conftest import Start
from tests.program import Program

QUERY = "SELECT ?s ?o WHERE { STREAM <http://localhost/r> [NOW] { ?s <urn:v> ?o } }"


def clean_environment(**extra: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("QUADRILL_")}
    return {**kept, **extra}


def start(*arguments: str, **environment: str) -> subprocess.Popen[str]:
    return Program(
        "serve", *arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=clean_environment(**environment),
    )  # fmt: skip


@pytest.fixture
def processes() -> Iterator[list[subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []
    yield started
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_server_says_when_it_is_ready_and_stops_cleanly(
    tmp_path: Path, processes: list[subprocess.Popen[str]], number: int
) -> None:
    server = start("--data", str(tmp_path / "data"), "--port", "0")
    processes.append(server)
    assert server.stdout is not None
    ready = server.stdout.readline()
    assert ready.startswith("Quadrill is ready at http://127.0.0.1:")
    url = ready.split()[-1]
    assert main(["update", "--server", url, "INSERT DATA { <urn:a> <urn:b> 1 }"]) == 0
    server.send_signal(number)
    _, errors = server.communicate(timeout=20)
    assert server.returncode == 0
    assert "Traceback" not in errors
    again = start("--data", str(tmp_path / "data"), "--port", "0")
    processes.append(again)
    assert again.stdout is not None
    url = again.stdout.readline().split()[-1]
    assert main(["query", "--server", url, "ASK { <urn:a> <urn:b> 1 }"]) == 0


def fail(process: subprocess.Popen[str]) -> str:
    """The one message of a server that cannot start."""
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 1
    assert "Traceback" not in errors
    (message,) = [line for line in errors.splitlines() if line.startswith("quadrill: ")]
    return message


def test_what_stands_in_the_way_of_a_start_is_one_sentence(
    tmp_path: Path,
    processes: list[subprocess.Popen[str]],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refused(*arguments: str) -> str:
        """The one message of a server that cannot start, in this process."""
        assert main(["serve", *arguments]) == 1
        (message,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("quadrill: ")]
        return message

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        assert f"port {port} on 127.0.0.1 is in use" in fail(start("--data", ":memory:", "--port", port))
    holder = start("--data", str(tmp_path / "held"), "--port", "0")
    processes.append(holder)
    assert holder.stdout is not None
    holder.stdout.readline()
    assert "in use by another process" in fail(start("--data", str(tmp_path / "held"), "--port", "0"))
    (tmp_path / "file").write_text("not a folder")
    assert "cannot be" in refused("--data", str(tmp_path / "file"), "--port", "0")
    (tmp_path / "future").mkdir()
    (tmp_path / "future" / "FORMAT").write_text("quadrill-data 999\n")
    assert "999" in refused("--data", str(tmp_path / "future"), "--port", "0")
    assert "without a token" in refused("--data", ":memory:", "--port", "0", "--host", "0.0.0.0")
    with monkeypatch.context() as changed:
        changed.setenv("QUADRILL_PROT", "1")
        assert "unknown setting" in refused("--data", ":memory:", "--port", "0")
    (tmp_path / "bad.toml").write_text("quiery_timeout = 3\n")
    message = refused("--data", ":memory:", "--config", str(tmp_path / "bad.toml"))
    assert "unknown setting quiery_timeout" in message


def test_usage_errors_are_2(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["nonsense"], [], ["query", "--format", "excel"], ["push"]):
        with pytest.raises(SystemExit) as stopped:
            main(arguments)
        assert stopped.value.code == 2
    capsys.readouterr()
    with pytest.raises(SystemExit):
        main(["register", "q.cqels", "--file", "q.cqels"])
    told = capsys.readouterr().err
    assert told.startswith("quadrill: register: there is no option --file\n")
    assert main(["serve", "--port", "99999"]) == 1
    assert "setting port given must be from 0 to 65535, it is 99999" in capsys.readouterr().err


def test_loads_offer_the_engines_of_the_store() -> None:
    assert load.ENGINES == ENGINES


def test_a_client_starts_without_store_and_engine() -> None:
    code = "import sys; from quadrill.app.cli import build_parser; build_parser('query'); print(*sys.modules)"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert not {"quadrill.app.wiring", "quadrill.continuous.engine", "flask"} & set(told.split())


def test_the_version_is_that_of_the_distribution(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["version"]) == 0
    assert capsys.readouterr().out == f"quadrill {version('quadrill')}\n"
    assert main(["version", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["quadrill"] == version("quadrill")
    assert set(shown) == {"quadrill", "python", "pyoxigraph", "sqlite", "platform"}


def test_help_is_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    names = re.findall(r"^    ([a-z]+)  ", capsys.readouterr().out, re.MULTILINE)
    assert {"serve", "demo", "query", "token"} <= set(names)
    for name in names:
        with pytest.raises(SystemExit) as ended:
            main([name, "--help"])
        told = capsys.readouterr().out
        assert ended.value.code == 0 and told.startswith(f"usage: quadrill {name} ")
        assert "`" not in told and "*" not in told.replace("local[*]", "")


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["register", "wrong.json"], 1, "wrong.json is not valid JSON, line 2, column 1"),
        (["register", "bytes"], 1, "bytes is not UTF-8"),
        (["query", "--file", "bytes"], 1, "bytes is not UTF-8"),
        (["run", "bytes"], 1, "bytes is not UTF-8"),
        (["export", "--data", "nothing", "kept"], 1, "there is no data in the folder {folder}/nothing"),
        (["export", "--server", "http://127.0.0.1:9", "kept"], 1, "no server answers"),
        (["backup", "--data", "nothing", "copy"], 1, "there is no data in the folder {folder}/nothing"),
        (["query", "--file", "kept", "ASK {}"], 2, "the text is given twice"),
        (["register", "--option", "t0", "kept"], 2, "--option t0 is not NAME=JSON"),
        (["run", "--stream", "kept", "kept"], 2, "--stream kept is not NAME=FILE"),
        (["run", "--until", "nonsense", "kept"], 2, "--until nonsense is not an instant"),
        (["export", "--data", "nothing", "one.ttl"], 2, "holds one graph"),
        (["mirror", "--master", "local"], 2, "--master is for --data"),
    ],
)
def test_wrong_input_is_told_in_a_sentence_and_changes_nothing(
    arguments: list[str],
    code: int,
    told: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wrong.json").write_text('{"query":\n')
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    (tmp_path / "kept").write_text("ASK {}")
    assert main(arguments) == code
    assert told.replace("{folder}", str(tmp_path)) in capsys.readouterr().err
    assert sorted(each.name for each in tmp_path.iterdir()) == ["bytes", "kept", "wrong.json"]
    assert (tmp_path / "kept").read_text() == "ASK {}"


def test_queries_and_updates_are_clients_of_a_server(
    start_server: Start, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    server = start_server()
    at = ["--server", server.url]
    file = tmp_path / "change.ru"
    file.write_text("INSERT DATA { <urn:s> <urn:p> 'x', 2 }")
    assert main(["update", *at, "--file", str(file)]) == 0
    assert main(["query", *at, "--format", "csv", "SELECT ?o { ?s ?p ?o } ORDER BY ?o"]) == 0
    assert capsys.readouterr().out == "o\r\n2\r\nx\r\n"
    assert main(["query", *at, "SELECT ?s ?o { ?s ?p ?o FILTER(isNumeric(?o)) }"]) == 0
    table = capsys.readouterr().out.splitlines()
    assert table[0].split() == ["s", "o"]
    assert table[2].split() == ["<urn:s>", "2"]
    assert main(["query", *at, "SELECT * {"]) == 1
    errors = capsys.readouterr().err
    assert "line 1" in errors
    assert "^" in errors


def test_the_life_of_a_continuous_query(
    start_server: Start, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    server = start_server()
    at = ["--server", server.url]
    (tmp_path / "q.cqels").write_text(QUERY)
    (tmp_path / "r.ndjson").write_text(json.dumps({"at": 1000, "data": "<urn:a> <urn:v> <urn:x> ."}) + "\n")
    assert main(["register", *at, str(tmp_path / "q.cqels"), "--name", "q"]) == 0
    assert main(["push", *at, "r", str(tmp_path / "r.ndjson"), "--wait"]) == 0
    (tmp_path / "idle.cqels").write_text("SELECT ?s { STREAM <http://localhost/none> [NOW] { ?s ?p ?o } }")
    assert main(["register", *at, str(tmp_path / "idle.cqels"), "--name", "idle"]) == 0
    capsys.readouterr()
    assert main(["queries", *at]) == 0
    shown = capsys.readouterr().out
    assert "no element of <http://localhost/none> has come since registration" in shown
    assert "[" not in shown
    assert main(["drop", *at, "idle"]) == 0
    assert main(["queries", *at]) == 0
    assert "q" in capsys.readouterr().out.splitlines()[2].split()
    assert main(["watch", *at, "q", "--from", "0", "--count", "1"]) == 0
    line = capsys.readouterr().out
    kind, _, data = line.partition(" ")
    assert main(["watch", *at, "q", "--from", "0", "--count", "1", "--ids"]) == 0
    assert capsys.readouterr().out == f"1 {line}"
    assert kind == "insert"
    assert json.loads(data)["at"] == 1000
    assert main(["register", *at, str(tmp_path / "q.cqels"), "--name", "q", "--output", "rstream"]) == 1
    assert "register --replace" in capsys.readouterr().err
    old = json.dumps({"at": 400, "data": "<urn:b> <urn:v> <urn:x> ."})
    (tmp_path / "old.ndjson").write_text(old + "\n")
    assert main(["push", *at, "r", str(tmp_path / "old.ndjson")]) == 1, "not everything got where it should"
    printed = capsys.readouterr()
    assert json.loads(printed.out)["dropped"] == 1
    assert "1 element was late and dropped" in printed.err
    assert "quadrill streams dead-letters r lists them" in printed.err
    assert main(["streams", "dead-letters", "r", *at, "--json"]) == 0
    (letter,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert (letter["reason"], letter["at"]) == ("late", 400)
    assert main(["drop", *at, "q"]) == 0
    assert main(["watch", *at, "q"]) == 0, "the feed of a dropped query has ended"
    assert main(["drop", *at, "q"]) == 1


def test_files_are_loaded_exported_backed_up_and_restored(
    start_server: Start, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    data = tmp_path / "data"
    server = start_server(data=str(data))
    at = ["--server", server.url]
    (tmp_path / "a.ttl").write_text("<urn:s> <urn:p> 1 .")
    (tmp_path / "b.nq").write_text("<urn:s> <urn:p> <urn:o> <urn:g> .\n")
    assert main(["load", *at, str(tmp_path / "a.ttl"), str(tmp_path / "b.nq")]) == 0
    assert main(["load", *at, "--graph", "urn:h", str(tmp_path / "a.ttl")]) == 0
    assert server.boolean(
        "ASK { <urn:s> <urn:p> 1 GRAPH <urn:g> { ?s ?p <urn:o> } GRAPH <urn:h> { ?s ?p 1 } }"
    )
    # While the server holds the folder, export and backup ask the server.
    export = tmp_path / "all.nq"
    assert main(["export", "--data", str(data), *at, str(export)]) == 0
    assert len(export.read_text().splitlines()) == 3
    assert main(["backup", "--data", str(data), *at, str(tmp_path / "saved")]) == 0
    assert main(["backup", "--data", str(data), *at, str(tmp_path / "saved")]) == 1
    assert main(["restore", "--data", str(tmp_path / "new"), str(tmp_path / "saved")]) == 0
    assert main(["restore", "--data", str(tmp_path / "new"), str(tmp_path / "saved")]) == 1
    assert main(["restore", "--data", str(tmp_path / "newer"), str(tmp_path)]) == 1
    capsys.readouterr()
    assert main(["export", "--data", str(tmp_path / "new")]) == 0
    restored = start_server(data=str(tmp_path / "new"))
    assert restored.services.store.reader.version == server.services.store.reader.version
    assert restored.services.store.reader.quad_count == 3


def test_recorded_files_are_evaluated_without_a_server(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "q.cqels").write_text(
        "SELECT ?s ?n WHERE { STREAM <http://localhost/r> [NOW] { ?s <urn:v> ?o } "
        "GRAPH <urn:g> { ?s <urn:name> ?n } }"
    )
    rows = [
        {"at": at, "data": f"<urn:{name}> <urn:v> <urn:x> ."}
        for at, name in ((1000, "a"), (2000, "b"), (3000, "a"))
    ]
    (tmp_path / "r.ndjson").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "names.ttl").write_text('<urn:a> <urn:name> "Ada" .')
    arguments = ["run", str(tmp_path / "q.cqels"), "--stream", f"r={tmp_path / 'r.ndjson'}"]
    assert main([*arguments, "--static", f"urn:g={tmp_path / 'names.ttl'}"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(" ")[0] for line in lines] == ["insert", "insert"]
    assert [json.loads(line.partition(" ")[2])["at"] for line in lines] == [1000, 3000]
    assert main(["run", str(tmp_path / "q.cqels"), "--stream", "r=/nowhere"]) == 1
    capsys.readouterr()
    wrong = ["run", str(tmp_path / "q.cqels"), "--stream", f"other={tmp_path / 'r.ndjson'}"]
    assert (main(wrong), main([*wrong, "--strict"])) == (0, 1)
    errors = capsys.readouterr().err
    assert "the query does not read the stream other" in errors
    assert "http://localhost/r" in errors


def test_recordings_of_several_streams_enter_in_the_order_of_their_times(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "q.cqels").write_text(
        "SELECT ?s ?v WHERE { STREAM <a> [NOW] { ?s <urn:v> ?v } STREAM <b> [RANGE 1s] { ?s <urn:w> ?w } }"
    )
    # Disorder in a file is none for the query: the elements of a push are sorted.
    a = [{"at": at, "data": f'<urn:s> <urn:v> "{at}" .'} for at in (3000, 1000, 2000)]
    b = [{"at": at, "data": "<urn:s> <urn:w> <urn:o> ."} for at in (1000, 2500)]
    (tmp_path / "a.ndjson").write_text("\n".join(map(json.dumps, a)))
    (tmp_path / "b.ndjson").write_text("\n".join(map(json.dumps, b)))
    files = [f"{name}={tmp_path / name}.ndjson" for name in ("a", "b")]
    printed = []
    for first, second in (files, files[::-1]):
        arguments = ["run", str(tmp_path / "q.cqels"), "--stream", first, "--stream", second]
        assert main([*arguments, "--until", "5000", "--format", "rows"]) == 0
        printed.append(capsys.readouterr().out.splitlines())
    rows = [f"+  1970-01-01T00:00:0{second}Z  <urn:s>  {second}000" for second in (1, 2, 3)]
    assert printed == [rows, rows]


def test_rows_of_triples_and_of_runs_of_empty_windows(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "q.rspql").write_text(
        "REGISTER STREAM <q> AS CONSTRUCT { ?s <urn:b> ?v } "
        "FROM NAMED WINDOW <w> ON <a> [RANGE PT1S STEP PT1S] WHERE { WINDOW <w> { ?s <urn:v> ?v } }"
    )
    rows = [{"at": at, "data": "<urn:s> <urn:v> <urn:o> ."} for at in (0, 2_000_000)]
    (tmp_path / "a.ndjson").write_text("\n".join(map(json.dumps, rows)))
    arguments = ["run", str(tmp_path / "q.rspql"), "--stream", f"a={tmp_path}/a.ndjson", "--format", "rows"]
    assert main(arguments) == 0
    assert capsys.readouterr().out.splitlines() == [
        "=  1970-01-01T00:00:01Z  <urn:s> <urn:b> <urn:o> .",
        "progress  from 2000  to 2000000  skipped 1999",
    ]


def test_recordings_without_times_enter_whole(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "q.cqels").write_text(
        "ASK { STREAM <a> [RANGE 1h] { ?s <urn:v> ?v } STREAM <b> [RANGE 1h] { ?s <urn:w> ?w } }"
    )
    (tmp_path / "a.nt").write_text("<urn:s> <urn:v> <urn:o> .")
    (tmp_path / "b.nt").write_text("<urn:s> <urn:w> <urn:o> .")
    files = [f"--stream={name}={tmp_path / name}.nt" for name in ("a", "b")]
    assert main(["run", str(tmp_path / "q.cqels"), *files, "--format", "rows"]) == 0
    signs = [line.split()[::2] for line in capsys.readouterr().out.splitlines()]
    assert signs == [["=", "false"], ["=", "true"]]


def test_a_text_is_explained_without_a_server(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "q.cqels").write_text(QUERY)
    assert main(["explain", str(tmp_path / "q.cqels")]) == 0
    assert "http://localhost/r" in capsys.readouterr().out
    (tmp_path / "bad.cqels").write_text("SELECT ?s WHERE { STREAM <s> [RANGE] { ?s ?p ?o } }")
    assert main(["explain", str(tmp_path / "bad.cqels")]) == 1
    errors = capsys.readouterr().err
    assert errors.count("line 1, column") == 1
    assert "^" in errors
    assert main(["explain", str(tmp_path / "none.cqels")]) == 1
    assert "there is no file" in capsys.readouterr().err


def test_tokens_are_made_listed_and_removed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    at = ["token", "--data", str(tmp_path / "data")]
    for action in (["add", "push"], ["list"], ["remove", "5f0c2a"]):
        assert main([*at, *action]) == 1
        assert f"{tmp_path / 'data'} is no data folder" in capsys.readouterr().err
        assert not (tmp_path / "data").exists()
    assert main([*at, "add", "push", "--label", "sensor 7", "--create"]) == 0
    token = capsys.readouterr().out.strip()
    assert main([*at, "list"]) == 0
    digits, role, *label = capsys.readouterr().out.split()
    assert (role, label) == ("push", ["sensor", "7"])
    assert token[:8] not in digits
    assert main([*at, "remove", digits]) == 0
    assert main([*at, "remove", digits]) == 1
    capsys.readouterr()
    assert main(["token", "add", "read", *at[1:]]) == 0
    assert main(["token", "list", *at[1:]]) == main([*at, "list"]) == 0
    _, first, second = capsys.readouterr().out.splitlines()
    assert first == second


def test_no_server_is_one_clear_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    assert main(["queries", "--server", f"http://127.0.0.1:{port}"]) == 1
    assert "no server answers" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("127.0.0.1:7878", "http://127.0.0.1:7878"),
        ("localhost", "http://localhost"),
        ("[::1]:7878", "http://[::1]:7878"),
        ("https://graph.example/at/", "https://graph.example/at/"),
    ],
)
def test_an_address_needs_no_scheme(text: str, url: str) -> None:
    assert server_url(text) == url


@pytest.mark.parametrize("text", ["ftp://x", "127.0.0.1:port", "http://", "file:///x"])
def test_what_is_no_address_is_one_sentence(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["queries", "--server", text]) == 1
    assert f"{text!r} is not an address of a server" in capsys.readouterr().err


def test_the_environment_names_the_server(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    monkeypatch.setenv("QUADRILL_SERVER", f"127.0.0.1:{port}")
    assert main(["queries"]) == 1
    assert f"no server answers at http://127.0.0.1:{port}/" in capsys.readouterr().err


def test_a_folder_is_migrated(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["migrate", "--data", str(tmp_path / "data")]) == 0
    told = capsys.readouterr().out.strip()
    assert re.fullmatch(r"the registry is at revision \w+", told), told


@pytest.mark.always("False-nq", "False-trig.gz", "True-*")
@pytest.mark.parametrize("ending", ["nq", "trig", "jsonld", "trig.gz", "nq.bz2", "trig.zst", "unknown"])
@pytest.mark.parametrize("served", [False, True])
def test_an_export_has_the_format_of_its_name(
    start_server: Start, tmp_path: Path, ending: str, *, served: bool
) -> None:
    data = str(tmp_path / "data")
    text = "INSERT DATA { <urn:a> <urn:p> 1 . GRAPH <urn:g> { <urn:a> <urn:p> 2 } }"
    if served:
        server = start_server(data=data)
        server.update(text)
        where = ["--server", server.url]
    else:
        with QuadStore.open(data) as store:
            store.writer.update(text)
        where = ["--data", data]
    file = tmp_path / f"all.{ending}"
    assert main(["export", *where, str(file)]) == 0
    assert sorted(each.name for each in tmp_path.iterdir()) == [file.name, "data"]
    kind = None if ending == "unknown" else guess_rdf_format(f"x.{ending.split('.')[0]}")
    packing = {"gz": "gz", "bz2": "bz2", "zst": "zst"}.get(ending.rpartition(".")[2], "")
    source = SourceFile(str(file), kind.media_type if kind else "application/n-quads", packing, 0, 0)
    with open_source(source) as content:
        form = RdfFormat.from_media_type(source.media_type)
        assert form is not None
        quads = set(parse(content.read(), form))
    assert {quad.object.value for quad in quads} == {"1", "2"}


def test_an_export_that_breaks_leaves_what_was_there(
    start_server: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "all.nq"
    file.write_text("before\n")
    with QuadStore.open(tmp_path / "data") as store:
        store.writer.update("INSERT DATA { <urn:a> <urn:p> 1 }")

    def breaks(store: QuadStore, output: Any, *_: Any, **__: Any) -> None:
        output.write(b"half")
        raise StoreUnwritableError("no space")

    monkeypatch.setattr(StoreReader, "dump", breaks)
    assert main(["export", "--data", str(tmp_path / "data"), str(file)]) == 1
    assert file.read_text() == "before\n"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["all.nq", "data"]
