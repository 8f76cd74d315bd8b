"""The command line: serve, the clients of a running server, the offline commands, exit codes."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .bench import Bench, Server, Sse, ins, rows_of, run_cli, start_cli, write

QUERY = "PREFIX : <http://e/> SELECT ?s WHERE { STREAM <%s> [RANGE 1h] { ?s :p ?o } }"
TRIPLE = "<http://e/%s> <http://e/p> 1 .\n"


Starter = Callable[..., Server]


@pytest.fixture
def started() -> Iterator[Starter]:
    """Starts servers, and stops those that a failing test leaves."""
    servers: list[Server] = []

    def start(*arguments: str) -> Server:
        servers.append(Server(*arguments))
        return servers[-1]

    yield start
    for server in servers:
        server.stop()


def run(server: Server, command: str, *arguments: str) -> tuple[int, str, str]:
    code, out, error = run_cli(command, "--server", server.url, *arguments)
    assert "Traceback" not in error
    return code, out, error


def test_the_ready_line(bench: Bench) -> None:
    port = bench.server.url.rsplit(":", 1)[1]
    assert bench.server.ready_line == f"Quadrill is ready at http://127.0.0.1:{port}/"


@pytest.mark.always("15")
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_serve_stops_cleanly_with_open_feeds_and_keeps_what_it_accepted(
    tmp_path: Path, started: Starter, how: signal.Signals
) -> None:
    data = str(tmp_path / "data")
    server = started("--data", data)
    bench = Bench(server)
    s = bench.stream()
    bench.update("INSERT DATA { :kept :p 1 }")
    q = bench.register(f"SELECT ?s WHERE {{ STREAM <{s}> [RANGE 1h] {{ ?s :p ?o }} }}")
    assert bench.push(s, 1, ":a :p 1 .")["durable"] is True
    bench.push(s, 2, ":b :p 1 .")
    before = [(event.id, event.raw) for event in bench.events(q)]
    with Sse(server.client, f"/queries/{q}/results", **{"from": "0"}) as feed:
        feed.take(2)
        server.process.send_signal(how)
        assert server.process.wait(timeout=20) == 0
    assert server.stop() == 0
    # the same after a restart: store, streams, queries, ids of the feed
    server = Server("--data", data)
    try:
        bench = Bench(server)
        assert bench.query("ASK { :kept :p 1 }").json()["boolean"] is True
        with Sse(server.client, f"/queries/{q}/results", **{"from": "0"}) as feed:
            assert [(event.id, event.raw) for event in feed.take(2)] == before
        assert bench.now(q) == ["a", "b"]
        bench.push(s, 3, ":c :p 1 .")
        with Sse(server.client, f"/queries/{q}/results", **{"from": "2"}) as feed:
            event = feed.one()
            assert (event.id, event.data["at"], rows_of(event.data)) == ("3", 3, ["c"])
    finally:
        assert server.stop() == 0


@pytest.mark.slow
def test_after_a_crash_the_feed_is_the_same(tmp_path: Path, started: Starter) -> None:
    data = str(tmp_path / "data")
    server = started("--data", data)
    bench = Bench(server)
    s = bench.stream()
    q = bench.register(f"SELECT ?s WHERE {{ STREAM <{s}> [RANGE 5 ms] {{ ?s :p ?o }} }}", output="changes")
    for at in range(0, 40, 2):
        bench.push(s, at, f":a{at} :p 1 .")
    before = [(event.id, event.raw) for event in bench.events(q)]
    server.process.kill()
    server.stop()
    server = Server("--data", data)
    try:
        bench = Bench(server)
        with Sse(server.client, f"/queries/{q}/results", **{"from": "0"}) as feed:
            assert [(event.id, event.raw) for event in feed.take(len(before))] == before
        bench.push(s, 40, ":a40 :p 1 .")
        with Sse(server.client, f"/queries/{q}/results", **{"from": str(before[-1][0])}) as feed:
            one, two = feed.take(2)
        assert [int(one.id or 0), int(two.id or 0)] == [len(before) + 1, len(before) + 2]
        assert (one.kind, one.data["at"], rows_of(one.data)) == ("delete", 40, ["a34"])
        assert (two.kind, two.data["at"], rows_of(two.data)) == ("insert", 40, ["a40"])
    finally:
        assert server.stop() == 0


def test_a_taken_port_is_told_plainly(bench: Bench) -> None:
    port = bench.server.url.rsplit(":", 1)[1]
    code, out, error = run_cli("serve", "--data", ":memory:", "--port", port)
    assert code == 1
    assert "ready" not in out
    assert port in error
    assert "Traceback" not in error


def test_a_config_file(tmp_path: Path) -> None:
    config = write(tmp_path, "quadrill.toml", 'idle_timeout = "7s"\nbase_iri = "http://base.example/"\n')
    server = Server("--data", ":memory:", "--config", config)
    try:
        bench = Bench(server)
        answer = server.client.post(
            "/streams/Taxi?at=1", content=TRIPLE % "a", headers={"Content-Type": "text/turtle"}
        )
        assert answer.json()["stream"] == "http://base.example/Taxi"
        assert bench.describe_stream("http://base.example/Taxi")["idle_timeout"] == "7s"
    finally:
        assert server.stop() == 0
    wrong = write(tmp_path, "wrong.toml", "idle_timeot = 7\n")
    code, _, error = run_cli("serve", "--data", ":memory:", "--config", wrong)
    assert code in (1, 2)
    assert "idle_timeot" in error


def test_the_clients_of_a_running_server(bench: Bench, tmp_path: Path) -> None:
    server = bench.server
    s = bench.stream()
    assert run(server, "update", "INSERT DATA { <http://e/a> <http://e/p> 1 }")[0] == 0
    code, out, _ = run(server, "query", "--format", "csv", "SELECT ?s { ?s ?p ?o }")
    assert (code, out.split()) == (0, ["s", "http://e/a"])
    rdf = write(tmp_path, "data.ttl", TRIPLE % "loaded")
    assert run(server, "load", "--graph", "http://e/g", rdf)[0] == 0
    code, out, _ = run(
        server, "query", "--format", "json", "ASK { GRAPH <http://e/g> { <http://e/loaded> ?p ?o } }"
    )
    assert json.loads(out)["boolean"] is True
    text = write(tmp_path, "watched.rq", QUERY % s)
    code, out, error = run(server, "register", "--name", "watched", text)
    assert code == 0, error
    element = write(tmp_path, "element.ttl", TRIPLE % "pushed")
    code, out, error = run(server, "push", "--at", "5", "--wait", s, element)
    assert code == 0, error
    assert bench.feed("watched") == [ins(5, "pushed")]
    code, out, _ = run(server, "queries")
    assert code == 0
    assert "watched" in out
    code, out, error = run(server, "watch", "--from", "0", "--count", "1", "watched")
    assert code == 0, error
    assert "http://e/pushed" in out
    assert len(out.strip().splitlines()) == 1
    code, out, _ = run(server, "explain", "watched")
    assert code == 0
    assert s in out
    assert run(server, "drop", "watched")[0] == 0
    assert run(server, "drop", "never-there")[0] == 1


def test_watch_follows(bench: Bench) -> None:
    s = bench.stream()
    q = bench.register(f"SELECT ?s WHERE {{ STREAM <{s}> [NOW] {{ ?s :p ?o }} }}")
    process = start_cli("watch", "--server", bench.server.url, "--from", "0", q)
    try:
        assert process.stdout is not None
        bench.push(s, 1, ":a :p 1 .")
        assert "http://e/a" in process.stdout.readline()
        bench.push(s, 3, ":b :p 1 .")
        assert "http://e/b" in process.stdout.readline()
        bench.drop(q)  # the feed ends, and so does the command
        assert process.wait(timeout=15) in (0, 1)
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["no-such-command"], 2),
        ([], 2),
        (["serve", "--prt", "1"], 2),
        (["serve", "--port", "many"], 2),
        (["query", "--server", "http://127.0.0.1:9", "ASK {}"], 1),
        (["run", "does-not-exist.rq"], 1),
        (["explain", "--server", "http://127.0.0.1:9", "nothing-like-this"], 1),
        (["--help"], 0),
        (["--version"], 0),
    ],
)
def test_exit_codes(arguments: list[str], expected: int) -> None:
    code, _, error = run_cli(*arguments)
    assert code == expected, error
    assert "Traceback" not in error


def test_a_wrong_query_exits_with_1_and_says_where(bench: Bench) -> None:
    code, _, error = run(bench.server, "query", "SELECT ?s WHERE { ?s ?p }")
    assert code == 1
    assert "line 1" in error


def test_explain_of_a_file_is_offline(tmp_path: Path) -> None:
    text = write(tmp_path, "q.rq", QUERY % "http://e/s")
    code, out, error = run_cli("explain", text)
    assert code == 0, error
    assert "http://e/s" in out
    wrong = write(tmp_path, "w.rq", "SELECT ?s WHERE { STREAM <x> [RANGE] { ?s ?p ?o } }")
    code, _, error = run_cli("explain", wrong)
    assert code == 1
    assert "line 1" in error


def test_run_evaluates_over_recorded_files_without_a_server(tmp_path: Path) -> None:
    text = write(
        tmp_path,
        "q.rq",
        "SELECT ?s ?l WHERE { STREAM <http://e/s> [NOW] { ?s <http://e/p> ?o } ?s <http://e/l> ?l }",
    )
    lines = [
        {"at": 1, "data": '<http://e/a> <http://e/p> "1" .'},
        {"at": 2, "data": '<http://e/b> <http://e/p> "1" .'},
    ]
    stream = write(tmp_path, "s.ndjson", "".join(json.dumps(line) + "\n" for line in lines))
    static = write(tmp_path, "d.ttl", '<http://e/a> <http://e/l> "A" . <http://e/b> <http://e/l> "B" .')
    code, out, error = run_cli("run", text, "--stream", f"http://e/s={stream}", "--static", static)
    assert code == 0, error
    # one event a line: its kind and its data
    found = [(line.split()[0], json.loads(line[line.index("{") :])) for line in out.splitlines()]
    assert [(kind, event["at"], rows_of(event)) for kind, event in found] == [
        ("insert", 1, ["a A"]),
        ("insert", 2, ["b B"]),
    ]


def test_a_stream_of_run_may_be_named_by_its_short_name(tmp_path: Path) -> None:
    text = write(tmp_path, "q.rq", "SELECT ?s WHERE { STREAM <http://e/s> [NOW] { ?s <http://e/p> ?o } }")
    stream = write(tmp_path, "s.ndjson", json.dumps({"at": 1, "data": '<http://e/a> <http://e/p> "1" .'}))
    code, out, error = run_cli("run", text, "--stream", f"s={stream}")
    assert code == 0, error
    assert "http://e/a" in out


@pytest.mark.slow
def test_backup_restore_export_migrate(tmp_path: Path, started: Starter) -> None:
    data = str(tmp_path / "data")
    server = started("--data", data)
    bench = Bench(server)
    bench.update("INSERT DATA { GRAPH :g { :a :p :b } }")
    bench.register("SELECT ?s WHERE { STREAM <http://e/s> [NOW] { ?s :p ?o } }", name="kept")
    assert run(server, "backup", str(tmp_path / "hot"))[0] == 0
    assert server.stop() == 0
    code, _, error = run_cli("backup", "--data", data, str(tmp_path / "cold"))
    assert code == 0, error
    for backup in ("hot", "cold"):
        restored = str(tmp_path / f"restored-{backup}")
        code, _, error = run_cli("restore", "--data", restored, str(tmp_path / backup))
        assert code == 0, error
        code, out, error = run_cli("export", "--data", restored, "--format", "nq")
        assert code == 0, error
        assert out.strip() == "<http://e/a> <http://e/p> <http://e/b> <http://e/g> ."
    code, _, error = run_cli("migrate", "--data", restored)
    assert code == 0, error
    server = started("--data", restored)
    names = [query["name"] for query in server.client.get("/queries").json()["queries"]]
    assert names == ["kept"]


def test_export_of_a_running_server(bench: Bench) -> None:
    bench.update("INSERT DATA { GRAPH :g { :a :p :b } }")
    code, out, error = run(bench.server, "export", "--format", "nq")
    assert code == 0, error
    assert out.strip() == "<http://e/a> <http://e/p> <http://e/b> <http://e/g> ."


@pytest.mark.slow
def test_two_servers_on_one_folder_are_refused(tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    server = Server("--data", data)
    try:
        code, out, error = run_cli("serve", "--data", data, "--port", "0")
        assert code == 1
        assert "ready" not in out
        assert "Traceback" not in error
    finally:
        assert server.stop() == 0


@pytest.mark.slow
def test_demo_runs_and_ends(tmp_path: Path) -> None:
    process = start_cli("demo", "--seconds", "2", "--port", "0", "--speed", "2400")
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("Quadrill is ready at http://127.0.0.1:")
        assert process.wait(timeout=60) == 0
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    finally:
        process.communicate()
