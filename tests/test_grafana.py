"""The dashboard of examples/grafana against a server, by the requests that the plugin Infinity documents.

Infinity 3 joins the address of the data source and that of the panel, appends the parameters, asks for JSON
by `application/json;q=0.9,text/plain`, and adds the bearer token. Its parser `jq-backend` applies the root
selector to the answer: each output is a row, of which it takes the columns.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from quadrill.client import Client
from tests.app.conftest import LiveServer, Start, start_server

yaml = pytest.importorskip("yaml", reason="no pyyaml")

__all__ = ["start_server"]

FOLDER = Path(__file__).parents[1] / "examples" / "grafana"
DASHBOARD = json.loads((FOLDER / "dashboards" / "quadrill.json").read_text("utf-8"))
SOURCES = yaml.safe_load((FOLDER / "provisioning" / "datasources" / "quadrill.yaml").read_text("utf-8"))
PANELS = {panel["title"]: panel for panel in DASHBOARD["panels"]}
TOKEN = "a token of some length"
NAME = "warm.rooms-1"
pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(shutil.which("jq") is None, reason="no jq, which applies the dashboard's selectors"),
]


class Infinity:
    """What the data source does with the target of a panel."""

    def __init__(self, url: str) -> None:
        variables = {"QUADRILL_URL": url.rstrip("/"), "QUADRILL_TOKEN": TOKEN}
        text = re.sub(r"\$(QUADRILL_\w+)", lambda found: variables[found[1]], json.dumps(SOURCES))
        (self.source,) = json.loads(text)["datasources"]

    def get(self, url: str) -> httpx.Response:
        assert any(url.startswith(host) for host in self.source["jsonData"]["allowedHosts"])
        assert self.source["jsonData"]["auth_method"] == "bearerToken"
        headers = {
            "Accept": "application/json;q=0.9,text/plain",
            "Authorization": f"Bearer {self.source['secureJsonData']['bearerToken']}",
        }
        return httpx.get(url, headers=headers).raise_for_status()

    def rows(self, target: dict[str, Any], query: str) -> list[dict[str, Any]]:
        """The rows that a target gives for a query that was chosen in the dashboard."""
        assert (target["type"], target["source"], target["parser"]) == ("json", "url", "jq-backend")
        assert target["datasource"] == {"type": self.source["type"], "uid": self.source["uid"]}
        assert target["url_options"]["method"] == "GET"
        path = target["url"].replace("${query:percentencode}", quote(query, safe=""))
        given = httpx.QueryParams([(each["key"], each["value"]) for each in target["url_options"]["params"]])
        text = self.get(f"{self.source['url']}{path}" + (f"?{given}" if given else "")).text
        done = subprocess.run(
            ["jq", "-c", target["root_selector"]], input=text, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        found = [json.loads(line) for line in done.stdout.splitlines()]
        names = [column["selector"] for column in target["columns"]]
        return [{name: row[name] for name in names} if names else row for row in found]


@pytest.fixture
def server(start_server: Start) -> LiveServer:
    return start_server(token=TOKEN)


@pytest.fixture
def client(server: LiveServer) -> Iterator[Client]:
    with Client(server.url, token=TOKEN) as found:
        text = """SELECT ?s ?v ?none { STREAM <http://e/s> [RANGE 1h] { ?s <urn:p> ?v }
            OPTIONAL { ?s <urn:none> ?none } }"""
        found.register(text, name=NAME, output="changes")
        yield found


def target(title: str) -> dict[str, Any]:
    (found,) = PANELS[title]["targets"]
    return found


def test_answer_is_a_table_with_numbers(server: LiveServer, client: Client) -> None:
    infinity = Infinity(server.url)
    assert infinity.rows(target("Answer"), NAME) == []
    xsd = "http://www.w3.org/2001/XMLSchema#"
    values = [
        "21",
        "2.5",
        "1e1",
        f'"7"^^<{xsd}unsignedByte>',
        f'"INF"^^<{xsd}double>',
        '"x"',
        "true",
        "<urn:o>",
    ]
    triples = " ".join(f"<urn:s{number}> <urn:p> {value} ." for number, value in enumerate(values))
    client.push("http://e/s", triples, media_type="text/turtle", at=1_000, wait=True)
    rows = infinity.rows(target("Answer"), NAME)
    expected = [21, 2.5, 10, 7, "INF", "x", "true", "urn:o"]
    assert sorted(rows, key=lambda row: row["s"]) == [
        {"s": f"urn:s{number}", "v": value, "none": None} for number, value in enumerate(expected)
    ]


def test_history_of_an_hour_is_a_time_series(
    server: LiveServer, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    infinity, chart = Infinity(server.url), "Elements, events and rows in ten seconds"
    history = {
        "every_ms": 10_000, "from": 1714564800000, "elements": [1, 2, 0], "late": [0, 1, 0],
        "events": [1, 0, None], "rows": [3, 0, 0], "state_size": [4, 5, 6], "evaluation_us": [None, 7, 8],
    }  # fmt: skip
    kept = client.request("GET", f"queries/{NAME}/history").json()
    assert kept.keys() == history.keys() and infinity.rows(target(chart), NAME) == []
    monkeypatch.setattr(Infinity, "get", lambda *_: httpx.Response(200, json=history))
    seconds = ["2024-05-01T12:00:00Z", "2024-05-01T12:00:10Z", "2024-05-01T12:00:20Z"]
    assert infinity.rows(target(chart), NAME) == [
        {"time": seconds[0], "elements": 1, "events": 1, "rows": 3, "late": 0},
        {"time": seconds[1], "elements": 2, "events": 0, "rows": 0, "late": 1},
        {"time": seconds[2], "elements": 0, "events": None, "rows": 0, "late": 0},
    ]
    assert [row["state"] for row in infinity.rows(target("Quads in windows"), NAME)] == [4, 5, 6]
    assert [row["evaluation"] for row in infinity.rows(target("CPU time in ten seconds"), NAME)] == [
        None,
        7,
        8,
    ]
    for title in (chart, "Quads in windows", "CPU time in ten seconds"):
        assert PANELS[title]["type"] == "timeseries"
        assert [each["type"] for each in target(title)["columns"] if each["selector"] == "time"] == [
            "timestamp"
        ]


def test_reasons_for_waiting_and_the_choice_of_a_query(server: LiveServer, client: Client) -> None:
    infinity = Infinity(server.url)
    (reason,) = infinity.rows(target("What the query waits for"), NAME)
    assert reason == {"reason": "no-element", "text": client.describe(NAME)["waiting_for"][0]["text"]}
    client.register("ASK { STREAM <http://e/s> [NOW] { ?s ?p ?o } }", name="other")
    (variable,) = DASHBOARD["templating"]["list"]
    asked = variable["query"]["infinityQuery"]
    assert [row["name"] for row in infinity.rows(asked, "")] == [NAME, "other"]


def test_every_panel_reads_the_provisioned_data_source(server: LiveServer) -> None:
    infinity = Infinity(server.url)
    assert infinity.get(infinity.source["jsonData"]["customHealthCheckUrl"]).status_code == 200
    uid = infinity.source["uid"]
    assert {panel["datasource"]["uid"] for panel in DASHBOARD["panels"]} == {uid}
    provider = yaml.safe_load((FOLDER / "provisioning" / "dashboards" / "quadrill.yaml").read_text("utf-8"))
    compose = yaml.safe_load((FOLDER / "compose.yaml").read_text("utf-8"))["services"]["grafana"]
    path = provider["providers"][0]["options"]["path"]
    assert f"./dashboards:{path}:ro" in compose["volumes"]
    assert compose["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"] == f"{path}/quadrill.json"
    assert compose["environment"]["GF_PLUGINS_PREINSTALL"] == infinity.source["type"]
    assert {"QUADRILL_URL", "QUADRILL_TOKEN"} <= compose["environment"].keys()
