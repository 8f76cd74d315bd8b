"""A registration that equals the registered query changes nothing, by each command and request."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from quadrill.app.cli import main
from quadrill.app.commands.toml_text import write_toml
from tests.app.conftest import LiveServer, Start

Members = dict[str, Any]
STREAM = "http://localhost/r"
WINDOW = f"FROM NAMED WINDOW <urn:w> ON <{STREAM}> [RANGE PT10S STEP PT5S]"
RSPQL = f"{WINDOW} WHERE {{ WINDOW <urn:w> {{ ?s ?p ?v }} }}"
NAMED = "http://localhost/NAME"
"""A result IRI whose last segment stands for the name of the query."""
CQELS = f"SELECT ?s ?v WHERE {{ STREAM <{STREAM}> [RANGE 10s] {{ ?s <urn:v> ?v . ?s <urn:in> _:b }} }}"
ONCE = f"SELECT ?s ?v WHERE {{ STREAM <{STREAM}> [RANGE 1h] {{ ?s <urn:v> ?v }} }} ONCE PER ?s"

SPELLINGS: dict[str, tuple[Members, list[tuple[str, Members]]]] = {
    "header": (
        {"query": f"REGISTER ISTREAM <{NAMED}> COMPUTED EVERY PT10S AS SELECT ?s ?v {RSPQL}"},
        [
            (".rq", {"query": f"SELECT ?s ?v {RSPQL}", "output": "istream", "report": {"periodic": "10s"},
                     "result_iri": NAMED}),
            (".rspql", {"query": f"REGISTER STREAM <{NAMED}> COMPUTED EVERY PT10S AS SELECT ?s ?v {RSPQL}",
                        "output": "istream", "dialect": "rspql"}),
            (".rspql", {"query": f"REGISTER ISTREAM <{NAMED}> AS SELECT ?s ?v {RSPQL}",
                        "report": {"periodic": 10_000}}),
        ],
    ),
    "member and default": (
        {"query": f"SELECT ?s ?v {RSPQL}"},
        [
            (".rspql", {"query": f"SELECT ?s ?v {RSPQL}"}),
            (".rq", {"query": f"SELECT ?s ?v {RSPQL}", "dialect": "rspql", "output": "rstream"}),
            (".rspql", {"query": f"SELECT ?s ?v {RSPQL}", "report": "on-window-close", "t0": None}),
            (".rq", {"query": f"SELECT ?s ?v {RSPQL}", "profile": "rspql", "refresh": "trigger"}),
            (".rq", {"query": f"SELECT ?s ?v {RSPQL}", "lateness": 0, "bounds": "closed-open"}),
            (".rq", {"query": f"SELECT ?s ?v {RSPQL}", "max_rows": 1_000_000, "start": "now"}),
        ],
    ),
    "prefixes, spacing, comments, labels": (
        {"query": CQELS},
        [
            (".cqels", {"query": CQELS}),
            (".rq", {"query": "# the newest\n" + CQELS.replace(" ", "   # _:q1 here\n ")}),
            (".rq", {"query": f"PREFIX : <urn:> {CQELS}".replace("<urn:v>", ":v")}),
            (".rq", {"query": f"BASE <http://localhost/> {CQELS.replace(STREAM, 'r')}"}),
            (".rq", {"query": CQELS.replace("SELECT", "select").replace("STREAM", "stream")}),
            (".rq", {"query": CQELS.replace("?s <urn:in> _:b", "?s <urn:in> []").replace("10s", "10000ms")}),
            (".rq", {"query": CQELS.replace("?v", "$v"), "dialect": "cqels", "output": "istream"}),
            (".rq", {"query": CQELS, "report": "on-content-change", "max_time": None}),
        ],
    ),
    "parameters": (
        {"query": ONCE.replace("?v }", "?v FILTER(?v != '$n$') }"), "parameters": {"n": "5"}},
        [(".cqels", {"query": ONCE.replace("?v }", "?v FILTER(?v != '5') }")})],
    ),
}  # fmt: skip
WAYS = ("put", "register", "register --replace", "apply")


class Client:
    """One server, with the ways to register a query on it; each says whether the query stayed the same."""

    def __init__(self, server: LiveServer, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.server, self.folder, self._capsys = server, folder, capsys

    def put(self, way: str, ending: str, members: Members, name: str = "q") -> str:
        """Register a query one of the `WAYS`; return ``new``, ``same`` or ``replaced``."""
        given = {key: value for key, value in members.items() if value is not None}
        if way in ("put", "replace"):
            parameters = {"replace": "true"} if way == "replace" else {}
            answer = self.server.client.put(f"/queries/{name}", json=given, params=parameters)
            assert answer.status_code in (200, 201), answer.text
            return "same" if answer.status_code == 200 else "new"
        text = given.pop("query")
        (self.folder / f"text{ending}").write_text(text)
        if way == "apply":
            entry = {"file": f"text{ending}"} | given
            (self.folder / "all.toml").write_text(write_toml({"queries": {name: entry}}))
            out = self.run("apply", str(self.folder / "all.toml")).splitlines()
            return {"create": "new", "same": "same", "change": "replaced"}[out[0].split()[0]]
        options = [f"--option={key}={json.dumps(value)}" for key, value in given.items()]
        options += ["--replace"] if way.endswith("--replace") else []
        out = self.run("register", str(self.folder / f"text{ending}"), "--name", name, *options)
        word = out.splitlines()[0].removeprefix(f"{name} ")
        return "new" if word == "registered" else word

    def run(self, *arguments: str, code: int = 0) -> str:
        self._capsys.readouterr()
        ended = main([arguments[0], "--server", self.server.url, *arguments[1:]])
        told = self._capsys.readouterr()
        assert ended == code, told.err
        return told.out if code == 0 else told.err

    def push(self, *elements: tuple[int, str]) -> None:
        data = '<urn:{0}> <urn:v> "1" .\n<urn:{0}> <urn:in> "2" .'
        lines = [json.dumps({"at": at, "data": data.format(subject)}) for at, subject in elements]
        headers = {"Content-Type": "application/x-ndjson"}
        answer = self.server.client.post("/streams/r?wait=true", content="\n".join(lines), headers=headers)
        assert answer.status_code == 200, answer.text

    def describe(self, name: str = "q") -> Members:
        document: Members = self.server.client.get(f"/queries/{name}").json()
        return document


@pytest.fixture
def client(start_server: Start, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Client:
    return Client(start_server(), tmp_path, capsys)


@pytest.mark.parametrize("kind", SPELLINGS)
def test_every_spelling_of_a_query_is_the_same_by_every_pair_of_ways(client: Client, kind: str) -> None:
    first, spellings = SPELLINGS[kind]
    for number, begun in enumerate(WAYS):
        name = f"q{number}"
        assert client.put(begun, ".rq", _under(name, first), name) == "new"
        client.push((1_000_000 * (number + 1), "a"), (1_000_000 * (number + 1) + 1, "b"))
        before = client.describe(name)
        assert before["state_size"] >= 2
        for ending, members in spellings:
            for way in WAYS:
                told = client.put(way, ending, _under(name, members), name)
                assert told == "same", (begun, way, members)
        after = client.describe(name)
        assert (after["created"], after["feed"], after["state_size"], after["counters"]) == (
            before["created"], before["feed"], before["state_size"], before["counters"],
        )  # fmt: skip


def _under(name: str, members: Members) -> Members:
    return {
        key: value.replace(NAMED, f"http://localhost/{name}") if isinstance(value, str) else value
        for key, value in members.items()
    }


CHANGES: list[tuple[Members, str, Any, Any]] = [
    ({"query": CQELS.replace("10s", "20s")}, "query", None, None),
    ({"query": CQELS.replace("?v ", "?v ?w ", 1)}, "query", None, None),
    ({"query": CQELS + " LIMIT 3"}, "query", None, None),
    ({"query": CQELS.replace("_:b", "?b")}, "query", None, None),
    ({"query": CQELS + " ONCE PER ?s"}, "query", None, None),
    ({"output": "changes"}, "output", "istream", "changes"),
    ({"report": {"periodic": "10s"}}, "report", "on-content-change", {"periodic": "10s"}),
    ({"lateness": "2s"}, "lateness", "0ms", "2s"),
    ({"max_rows": 7}, "max_rows", 1_000_000, 7),
    ({"memory": 7}, "memory", None, 7),
    ({"refresh": {"every": 30_000}}, "refresh", "trigger", {"every": "30s"}),
    ({"bounds": "open-closed"}, "bounds", None, "open-closed"),
    ({"start": {"from": 5}}, "start", "now", {"from": 5}),
    ({"non_empty": True}, "non_empty", False, True),
    ({"strict_dataset": True}, "strict_dataset", False, True),
    ({"result_iri": "http://e/out"}, "result_iri", None, "http://e/out"),
    ({"after": "1h"}, "after", None, "1h"),
]


@pytest.mark.parametrize("given, member, old, new", CHANGES, ids=[str(each[0])[:60] for each in CHANGES])
def test_a_different_query_is_refused_with_its_differences_and_costs(
    client: Client, given: Members, member: str, old: Any, new: Any
) -> None:
    assert client.put("put", ".rq", {"query": CQELS}) == "new"
    client.push((1_000, "a"))
    members = {"query": CQELS} | given
    answer = client.server.client.put("/queries/q", json=members)
    assert answer.status_code == 409 and answer.json()["code"] == "query-exists"
    (difference,) = answer.json()["differences"]
    expected = (CQELS, members["query"]) if member == "query" else (old, new)
    assert (difference["member"], difference["old"], difference["new"]) == (member, *expected)
    assert [each["cost"] for each in answer.json()["costs"]] == ["windows-empty", "feed-reset"]
    assert client.describe()["state_size"] == 2, "a refused registration changes nothing"
    assert client.server.client.put("/queries/q?replace=true", json=members).status_code == 201
    assert client.put("put", ".rq", members) == "same"


def test_commands_print_old_and_new_values_and_the_costs(client: Client) -> None:
    assert client.put("put", ".rq", {"query": ONCE}) == "new"
    client.push((1_000, "a"))
    changed = {"query": ONCE.replace("1h", "2h"), "output": "changes"}
    (client.folder / "q.rq").write_text(changed["query"])
    line = ("register", str(client.folder / "q.rq"), "--output", "changes")
    differences = ["query: 1h] → 2h]", "output: istream → changes"]
    costs = (
        "costs: its windows begin empty (quads in them now: 1); its feed gets a reset event, and "
        "subscribers begin again; ONCE PER forgets the keys of rows emitted before"
    )
    refused = client.run(*line, code=1)
    for each in (*differences, costs):
        assert f"\n  {each}\n" in refused
    assert client.describe()["state_size"] == 1
    entry = {"file": "q.rq", "output": "changes"}
    (client.folder / "all.toml").write_text(write_toml({"queries": {"q": entry}}))
    planned = client.run("apply", str(client.folder / "all.toml"), "--dry-run")
    assert planned.splitlines()[:-1] == [
        "change  queries.q", *(f"        {each}" for each in (*differences, costs)),
    ]  # fmt: skip
    replaced = client.run(*line, "--replace")
    assert replaced.splitlines() == ["q replaced", *(f"  {each}" for each in (*differences, costs))]
    assert client.describe()["state_size"] == 0
    assert client.run("apply", str(client.folder / "all.toml")).splitlines()[0] == "same    queries.q"


def test_the_keys_of_once_per_stay_with_an_equal_query(client: Client) -> None:
    for way in WAYS:
        client.put(way, ".rq", {"query": ONCE})
        client.push((1_000, "a"))
    assert client.describe()["feed"]["last_id"] == 1, "the key was emitted once, by the first evaluation"


def test_a_query_that_its_text_names_is_replaced_under_this_name(client: Client) -> None:
    text = f"REGISTER ISTREAM <http://localhost/named> AS SELECT ?s {RSPQL}"
    (client.folder / "other.rspql").write_text(text)
    line = ("register", str(client.folder / "other.rspql"))
    assert client.run(*line) == "named registered\n"
    assert client.run(*line, "--replace") == "named same\n"
    (client.folder / "other.rspql").write_text(text.replace("PT10S", "PT20S"))
    assert client.run(*line, "--replace").startswith("named replaced\n  query: PT10S → PT20S\n")
    assert json.loads(client.run(*line, "--json"))["change"] == "same"


def test_a_put_that_replaces_does_not_compare(client: Client) -> None:
    assert client.put("put", ".rq", {"query": ONCE}) == "new"
    client.push((1_000, "a"))
    assert client.put("replace", ".rq", {"query": ONCE}) == "new"
    client.push((2_000, "a"))
    assert client.describe()["feed"]["last_id"] == 2 and client.describe()["state_size"] == 1


def test_a_failed_query_is_restarted_by_a_replacement_that_equals_it(client: Client) -> None:
    members = {"query": CQELS, "memory": 1}
    assert client.put("put", ".rq", members) == "new"
    client.push((1_000, "a"))
    assert client.describe()["state"] == "failed"
    assert client.put("put", ".rq", members) == "same" and client.describe()["state"] == "failed"
    for way in ("replace", "register --replace"):
        assert client.put(way, ".rq", members) in ("new", "replaced")
        assert client.describe()["state"] == "running"
        client.push((1_000, "a"))
        assert client.describe()["state"] == "failed"


def test_the_ending_of_a_file_is_its_dialect_for_every_command(client: Client) -> None:
    text = "SELECT ?s WHERE { ?s <urn:p> ?o }"
    assert client.put("register", ".cqels", {"query": text}) == "new"
    assert client.describe()["dialect"] == "cqels"
    assert client.put("apply", ".cqels", {"query": text}) == "same"
    assert client.put("put", "", {"query": text, "dialect": "cqels"}) == "same"
    answer = client.server.client.put("/queries/q", json={"query": text})
    assert [each["member"] for each in answer.json()["differences"]] == ["dialect", "output"]
