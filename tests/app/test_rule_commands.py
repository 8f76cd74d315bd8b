"""``quadrill rules``, and rule sets in ``quadrill apply`` and ``quadrill dump``."""

from __future__ import annotations

import json
import time
from pathlib import Path

import httpx
import pytest

from quadrill.app import running
from quadrill.app.cli import main
from quadrill.app.config import Settings
from tests.app.conftest import Start
from tests.app.test_apply import Client

GRAND = "CONSTRUCT { ?x <urn:grand> ?z }\nWHERE { ?x <urn:parent> ?y . ?y <urn:parent> ?z }\n"
OLD = "CONSTRUCT { ?x <urn:old> true } WHERE { ?x <urn:grand> ?z }"
FAMILY = "INSERT DATA { <urn:a> <urn:parent> <urn:b> . <urn:b> <urn:parent> <urn:c> }"
SECTIONS = f'''
[rules.second]
into = "urn:second"
rules = ["{OLD}"]
from = ["default", "urn:first"]
max_time = "20s"
on_budget = "suspend"

[rules.first]
into = "urn:first"
files = ["grand.rq"]
max_inferred = 1000
'''


@pytest.fixture
def client(start_server: Start, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Client:
    client = Client(start_server(), tmp_path, capsys)
    client.write(GRAND, "grand.rq")
    client.server.update(FAMILY)
    return client


def test_set_is_put_listed_shown_and_deleted(client: Client) -> None:
    made = client.run("rules", "put", "family", str(client.folder / "grand.rq"), "--into", "urn:i")
    assert (made.code, made.err) == (0, "family is ready: 1 inferred triple\n")
    again = client.run("rules", "put", "family", str(client.folder / "grand.rq"), "--into", "urn:i")
    assert again.err == "family is unchanged\n"
    listed = client.run("rules")
    assert listed.out.splitlines()[0].split() == [
        "name", "state", "graph", "inferred", "rules", "cost", "error",
    ]  # fmt: skip
    assert listed.out.splitlines()[-1].split()[:6] == ["family", "ready", "urn:i", "1", "1", "rule"]
    assert json.loads(client.run("rules", "show", "family").out) == client.get("/rules/family")
    gone = client.run("rules", "delete", "family", "--json")
    assert json.loads(gone.out) == {"deleted": "family"}
    missing = client.run("rules", "show", "family")
    assert (missing.code, missing.err) == (1, "quadrill: there is no rule set family\n")


def test_put_takes_members_from_a_file_and_options(client: Client) -> None:
    file = client.write(json.dumps({"rules": [GRAND], "into": "urn:i", "max_inferred": 5}), "family.json")
    more = ("--from", "default", "--max-inferred", "7", "--max-time", "3s", "--on-budget", "suspend")
    put = client.run("rules", "put", "family", file, *more, "--no-wait", "--json")
    job = json.loads(put.out)
    assert (put.code, job["kind"]) == (0, "rules")
    while client.get(f"/jobs/{job['id']}")["state"] != "done":
        time.sleep(0.02)
    described = client.get("/rules/family")
    given = {name: described[name] for name in ("from", "max_inferred", "max_time", "on_budget")}
    assert given == {"from": ["default"], "max_inferred": 7, "max_time": "3s", "on_budget": "suspend"}


@pytest.mark.parametrize(
    ("arguments", "code", "part"),
    [
        (["put", "x"], 2, "needs a FILE or --include"),
        (["put", "x", "FOLDER/none.rq", "--into", "urn:i"], 1, "none.rq"),
        (["put", "x", "FOLDER/list.json"], 1, "must hold a JSON object"),
        (["put", "x", "FOLDER/bad.rq", "--into", "urn:i"], 1, "bound in the body"),
        (
            ["put", "x", "FOLDER/grand.rq", "--into", "urn:i", "--max-inferred", "0"],
            1,
            "was not put: the",
        ),
        (["delete", "x"], 1, "there is no rule set x"),
    ],
)
def test_refusal_is_one_sentence(client: Client, arguments: list[str], code: int, part: str) -> None:
    client.write("[]", "list.json")
    client.write("CONSTRUCT { ?x <urn:p> ?z } WHERE { ?x ?p ?o }", "bad.rq")
    told = client.run("rules", *(each.replace("FOLDER", str(client.folder)) for each in arguments))
    assert told.code == code
    assert part in told.err


def test_rule_sets_are_applied_dumped_and_applied_again(client: Client, start_server: Start) -> None:
    applied = client.apply(SECTIONS)
    assert applied.code == 0, applied.err
    assert applied.steps == [("create", "rules.second", []), ("create", "rules.first", [])]
    assert client.server.boolean("ASK { GRAPH <urn:second> { <urn:a> <urn:old> true } }")
    assert client.apply(SECTIONS).actions == {"same"}
    dumped = client.run("dump")
    assert dumped.out.startswith(f'[rules.first]\ninto = "urn:first"\nrules = [\n"""\n{GRAND}""",\n]\n')
    for form, name in (("toml", "dumped.toml"), ("yaml", "dumped.yaml")):
        text = client.run("dump", "--format", form).out
        assert client.apply(text, name=name).actions == {"same"}
        other = Client(start_server(), client.folder, client._capsys)
        assert other.apply(text, name=name).actions == {"create"}
        assert other.run("dump", "--format", form).out == text


def test_changed_set_is_replaced_and_an_undeclared_one_pruned(client: Client) -> None:
    client.apply(SECTIONS)
    changed = SECTIONS.replace("max_inferred = 1000", "max_inferred = 2000").replace('"20s"', '"20000ms"')
    dry = client.apply(changed, "--dry-run")
    assert dry.steps == [("same", "rules.second", []), ("change", "rules.first", ["max_inferred"])]
    assert client.get("/rules/first")["max_inferred"] == 1000
    assert client.apply(changed).code == 0
    assert client.get("/rules/first")["max_inferred"] == 2000
    pruned = client.apply("[rules]\n", "--prune")
    assert pruned.steps == [("remove", "rules.second", []), ("remove", "rules.first", [])]
    assert client.get("/rules") == {"rules": []}


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ('[rules.x]\ninto = "urn:x"\nfiles = ["none.rq"]\n', "rules.x: file none.rq"),
        ('[rules.x]\ninto = "urn:x"\nfiles = "grand.rq"\n', "files and rules must be lists"),
        ('[rules.x]\ninto = "urn:x"\nrules = ["SELECT * { ?s ?p ?o }"]\n', "rules.x: rule 0: a rule is a"),
        ('[rules.x]\ninto = "urn:x"\nrules = []\ncolour = "red"\n', "no member 'colour'"),
    ],
)
def test_wrong_declaration_is_refused_before_anything_is_done(client: Client, text: str, part: str) -> None:
    told = client.apply(text, "--dry-run")
    assert told.code == 1
    assert part in told.err


def test_load_without_a_server_derives_the_consequences(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = Settings(data=str(tmp_path / "data"), port=0)
    with running.serve(settings) as found:
        httpx.put(f"{found.url}rules/family", json={"rules": [GRAND], "into": "urn:i"}).raise_for_status()
    file = tmp_path / "family.nt"
    file.write_text("<urn:a> <urn:parent> <urn:b> .\n<urn:b> <urn:parent> <urn:c> .\n")
    assert main(["load", "--data", str(tmp_path / "data"), str(file)]) == 0, capsys.readouterr().err
    with running.serve(settings) as found:
        assert httpx.get(f"{found.url}rules/family").json()["inferred"] == 1
