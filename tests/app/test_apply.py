"""``quadrill apply`` and ``quadrill dump`` with a real server."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

from quadrill.app.cli import main
from tests.app.conftest import LiveServer, Start

PAGE = Path(__file__).parents[2] / "docs" / "cookbook" / "apply.md"
QUERY = "SELECT ?s ?v\nWHERE { STREAM <http://e/readings> [NOW] { ?s <urn:v> ?v } }\n"
SINK = {"kind": "webhook", "query": "hot", "url": "http://127.0.0.1:9/"}


class Applied:
    """What the command said."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def steps(self) -> list[tuple[str, str, list[str]]]:
        return [
            (each["action"], f"{each['section']}.{each['name']}", each["differs"])
            for each in json.loads(self.out)["steps"]
        ]

    @property
    def actions(self) -> set[str]:
        return {action for action, _, _ in self.steps}


class Client:
    """The commands, with a folder for their files."""

    def __init__(self, server: LiveServer, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.server, self.folder, self._capsys = server, folder, capsys

    def run(self, *arguments: str) -> Applied:
        self._capsys.readouterr()
        code = main([arguments[0], "--server", self.server.url, *arguments[1:]])
        return Applied(code, *self._capsys.readouterr())

    def write(self, text: str, name: str = "all.toml") -> str:
        (self.folder / name).write_text(text, "utf-8")
        return str(self.folder / name)

    def apply(self, text: str, *options: str, name: str = "all.toml") -> Applied:
        return self.run("apply", self.write(text, name), "--json", *options)

    def get(self, path: str) -> Any:
        answer = self.server.client.get(path)
        assert answer.status_code == 200, answer.text
        return answer.json()


@pytest.fixture
def client(start_server: Start, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Client:
    server = start_server(remote_hosts=["127.0.0.1"], source_folders=[str(tmp_path)])
    return Client(server, tmp_path, capsys)


ALL = f'''
[prefixes]
ex = "http://example.org/"

[streams.readings]
iri = "http://e/readings"
lateness = "2s"
retention = "1h"

[streams.raw]
[streams.raw.mapping]
construct = """
CONSTRUCT {{ ?s <urn:v> ?value }} WHERE {{ BIND(IRI(CONCAT("urn:", ?sensor)) AS ?s) }}
"""
time = "ts"
time_format = "s"

[queries.hot]
query = """
{QUERY}"""
output = "istream"
report = {{ periodic = "10s" }}

[queries.asked]
file = "asked.rq"
dialect = "cqels"

[sources.hook]
kind = "webhook"
stream = "http://e/readings"
secret = "${{HOOK_SECRET}}"

[sinks.out]
kind = "webhook"
query = "hot"
url = "http://127.0.0.1:9/"
headers = {{ X-Key = "${{HOOK_SECRET}}" }}
'''


@pytest.fixture
def applied(client: Client, monkeypatch: pytest.MonkeyPatch) -> Client:
    """A server that has everything of ALL."""
    monkeypatch.setenv("HOOK_SECRET", "between-us")
    client.write(QUERY, "asked.rq")
    done = client.apply(ALL)
    assert (done.code, done.actions) == (0, {"create"}), done.err
    assert [name.partition(".")[0] for _, name, _ in done.steps] == [
        "prefixes", "streams", "streams", "queries", "queries", "sources", "sinks",
    ]  # fmt: skip
    return client


def test_what_is_declared_comes_and_a_second_time_changes_nothing(applied: Client) -> None:
    stream = applied.get("/streams/readings")
    assert (stream["iri"], stream["lateness"], stream["retention"]) == ("http://e/readings", "2s", "1h")
    assert applied.get("/streams/raw")["mapping"]["time"] == "ts"
    assert applied.get("/queries/hot")["report"] == {"periodic": "10s"}
    assert applied.get("/queries/asked")["text"] == QUERY
    assert applied.get("/sources/hook")["secret"] == "***"
    created = applied.get("/queries/hot")["created"]
    again = applied.apply(ALL)
    assert (again.code, again.actions) == (0, {"same"})
    assert applied.get("/queries/hot")["created"] == created


@pytest.mark.parametrize("form", ["toml", "yaml"])
def test_a_dump_changes_nothing_and_makes_another_server_alike(
    applied: Client,
    form: str,
    start_server: Start,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    applied.server.client.post("/streams?iri=http://e/other", content=b"<urn:a> <urn:p> <urn:b> .",
                               headers={"Content-Type": "application/n-triples"})  # fmt: skip
    dumped = applied.run("dump", "--format", form)
    assert "between-us" not in dumped.out and "other" not in dumped.out
    assert dumped.err.splitlines() == [
        "QUADRILL_SOURCE_HOOK_SECRET stands for the secret of sources.hook: secret",
        "QUADRILL_SINK_OUT_HEADERS stands for the secret of sinks.out: headers",
    ]
    assert "WHERE { STREAM <http://e/readings>" in dumped.out.replace("\\n", "")
    missing = applied.apply(dumped.out, name=f"dumped.{form}")
    assert missing.code == 1
    assert "sources.hook: secret: the environment has no variable QUADRILL_SOURCE" in missing.err
    monkeypatch.setenv("QUADRILL_SOURCE_HOOK_SECRET", "between-us")
    monkeypatch.setenv("QUADRILL_SINK_OUT_HEADERS", '{"X-Key": "between-us"}')
    again = applied.apply(dumped.out, "--prune", name=f"dumped.{form}")
    assert (again.code, again.actions) == (0, {"same"}), again.out
    other = Client(start_server(remote_hosts=["127.0.0.1"]), tmp_path, capsys)
    assert other.apply(dumped.out, name=f"dumped.{form}").actions == {"create"}
    assert other.run("dump", "--format", form).out == dumped.out
    # Whoever does not know a secret lets it stay.
    monkeypatch.setenv("QUADRILL_SOURCE_HOOK_SECRET", "***")
    assert other.apply(dumped.out, name=f"dumped.{form}").actions == {"same"}


def test_only_what_differs_is_changed(applied: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    created = applied.get("/queries/asked")["created"]
    text = ALL.replace('lateness = "2s"', "lateness = 3000").replace('retention = "1h"\n', "")
    text = text.replace('time_format = "s"', 'time_format = "ms"').replace("?s ?v\n", "?s\n")
    text = text.replace("http://example.org/", "http://example.com/")
    monkeypatch.setenv("HOOK_SECRET", "another")
    planned = applied.apply(text, "--dry-run")
    assert applied.get("/streams/readings")["lateness"] == "2s"
    done = applied.apply(text)
    assert done.steps == planned.steps == [
        ("change", "prefixes.ex", ["uri"]),
        ("change", "streams.readings", ["lateness"]),
        ("change", "streams.raw", ["mapping"]),
        ("change", "queries.hot", ["query"]),
        ("same", "queries.asked", []),
        ("change", "sources.hook", ["secret"]),
        ("change", "sinks.out", ["headers"]),
    ]  # fmt: skip
    stream = applied.get("/streams/readings")
    assert (stream["lateness"], stream["retention"]) == ("3s", "1h")
    assert applied.get("/queries/hot")["columns"] == ["s"]
    assert applied.get("/queries/asked")["created"] == created
    assert applied.apply(text).actions == {"same"}


def test_options_of_a_query_are_compared(applied: Client) -> None:
    done = applied.apply(ALL.replace('"10s"', '"20s"'))
    assert [each for each in done.steps if each[0] != "same"] == [("change", "queries.hot", ["report"])]
    assert applied.get("/queries/hot")["report"] == {"periodic": "20s"}


def test_a_dry_run_does_nothing(client: Client) -> None:
    done = client.apply(f"[streams.a]\n[queries.q]\nquery = '''{QUERY}'''", "--dry-run")
    assert done.actions == {"create"}
    assert client.get("/streams")["streams"] == [] and client.get("/queries")["queries"] == []
    shown = client.run("apply", str(client.folder / "all.toml"), "--dry-run")
    assert shown.out.splitlines() == [
        "create  streams.a",
        "create  queries.q",
        "would be: 2 created, 0 changed, 0 same, 0 removed",
    ]


def test_pruning_takes_only_kinds_that_a_file_has(applied: Client) -> None:
    told = applied.apply("[queries]\n[sinks]\n")
    assert told.steps == []
    assert told.err == "3 objects on the server in no file; --prune removes undeclared objects\n"
    done = applied.apply("[queries]\n[sinks]\n[streams.raw]\n[sources]\n", "--prune")
    assert [(action, name) for action, name, _ in done.steps] == [
        ("remove", "sinks.out"),
        ("remove", "sources.hook"),
        ("remove", "queries.asked"),
        ("remove", "queries.hot"),
        ("remove", "streams.readings"),
        ("change", "streams.raw"),
    ]
    assert applied.get("/queries")["queries"] == [] and applied.get("/sinks")["sinks"] == []
    assert applied.get("/prefixes") == [{"prefix": "ex", "uri": "http://example.org/"}]
    assert applied.get("/streams/raw")["mapping"] is None


def test_a_stream_of_a_push_becomes_declared(client: Client) -> None:
    client.server.client.post("/streams/a", content=b"<urn:a> <urn:p> <urn:b> .",
                              headers={"Content-Type": "application/n-triples"})  # fmt: skip
    assert client.apply("[streams]", "--prune").steps == []
    assert client.apply("[streams.a]").steps == [("change", "streams.a", ["declared"])]
    assert client.apply("[streams.a]").actions == {"same"}
    assert client.get("/streams/a")["accepted"] == 1


def test_a_mapping_may_begin_to_tell_the_time(client: Client) -> None:
    text = "[streams.a.mapping]\nconstruct = 'CONSTRUCT { <urn:a> <urn:v> ?v } WHERE {}'\n"
    assert client.apply(text).code == 0
    assert client.get("/streams/a")["stamping"] == "arrival"
    done = client.apply(text + "time = 'ts'")
    assert done.steps == [("change", "streams.a", ["mapping"])], done.err
    assert client.get("/streams/a")["stamping"] == "event"
    assert client.apply(text + "time = 'ts'").actions == {"same"}


def test_what_is_wrong_with_a_declaration_is_told_before_anything_is_done(client: Client) -> None:
    for wrong, told in (
        ("[queries.q]\nquery = 'SELECT'", "queries.q: "),
        ("[queries.q]\nquery = 'SELECT'\noutputs = 'istream'", "queries.q: a registration has no member"),
        ("[sources.s]\nkind = 'file'\nstream = 'http://e/s'\npath = '/etc/passwd'", "sources.s: "),
        ("[sources.s]\nkind = 'webhook'\nstream = 'http://e/s'\nsecret = '***'", "sources.s: secret is ***"),
        ("[sinks.s]\nkind = 'webhook'\nquery = 'q'\nurl = 'http://10.1.2.3/'", "sinks.s: "),
    ):  # fmt: skip
        done = client.apply(f"[streams.a]\n{wrong}\n")
        assert done.code == 1
        assert done.err.startswith(f"quadrill: {client.folder / 'all.toml'}: {told}") or told in done.err
    assert client.get("/streams")["streams"] == []


def test_a_dry_run_tells_what_is_wrong_with_a_stream(client: Client) -> None:
    client.apply("[streams.there]\niri = 'http://e/there'\nstamping = 'event'")
    for wrong, told in (
        ("[streams.b]\nlate = 'no'", "streams.b: late is 'no'"),
        ("[streams.b]\niri = 'http://e/there'", "streams.b: <http://e/there> is the stream there"),
        ("[streams.b.mapping]\nconstruct = 'SELECT'", "streams.b: "),
        ("[streams.there]\niri = 'http://e/there'\nretention = 'long'", "streams.there: retention"),
    ):
        done = client.apply(f"[streams.a]\n{wrong}\n", "--dry-run")
        assert (done.code, told in done.err) == (1, True), done.err
    assert [each["name"] for each in client.get("/streams")["streams"]] == ["there"]


def test_standard_input_is_a_file(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("[streams.a]\nretention = '1h'\n"))
    done = client.run("apply", "-", "--json")
    assert done.steps == [("create", "streams.a", [])], done.err
    monkeypatch.setattr("sys.stdin", io.StringIO("streams: {a: {retention: 1h}}\n"))
    assert client.run("apply", "-", "--format", "yaml", "--json").actions == {"same"}
    monkeypatch.setattr("sys.stdin", io.StringIO("streams: {a: {retention: 1h}}\n"))
    wrong = client.run("apply", "-")
    assert wrong.code == 1 and "standard input is not valid TOML" in wrong.err


def test_what_was_done_before_an_error_is_told(client: Client) -> None:
    client.apply("[prefixes]\nold = 'http://e/'")
    done = client.apply(
        "[prefixes]\nold = 'http://e/'\nnew = 'http://f/'\n[streams.a]\n[streams.b]\nlate = 'no'"
    )
    assert done.code == 1
    assert "all.toml: streams.b: late is 'no'" in done.err
    assert "; done before: created prefixes.new, created streams.a" in done.err
    assert [each["done"] for each in json.loads(done.out)["steps"]] == [True, True, True, False]
    assert [each["name"] for each in client.get("/streams")["streams"]] == ["a"]


def test_the_example_of_the_cookbook(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    page = PAGE.read_text("utf-8")
    monkeypatch.setenv("DOOR_SECRET", "open-sesame")
    (toml,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    (query,) = re.findall(r"```sparql\n(.*?)```", page, re.DOTALL)
    client.write(query, "warm.rq")
    client.write(toml, "rooms.toml")
    shown = client.run("apply", str(client.folder / "rooms.toml"))
    assert shown.code == 0, shown.err
    assert f"$ quadrill apply rooms.toml\n{shown.out}" in page
    again = client.run("apply", str(client.folder / "rooms.toml"))
    assert again.out.splitlines()[-1] in page
