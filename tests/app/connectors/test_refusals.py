"""Refusals mean the same for every kind over HTTP; keys in the query part of an address are not shown."""

from __future__ import annotations

import logging

import pytest

from quadrill.app.commands.plan import with_references
from quadrill.app.connectors.declaration import shown_url
from tests.app.conftest import Start, problem_of
from tests.app.connectors.test_sources import S, put, reply, state, web
from tests.app.test_feed_streams import until

SECRET = "h1dd3n"


@pytest.mark.always("401-failed", "410-failed", "503-waiting")
@pytest.mark.parametrize(
    ("status", "told"),
    [(401, "failed"), (403, "failed"), (410, "failed"), (408, "waiting"), (429, "waiting"), (503, "waiting")],
)
def test_a_refusal_means_the_same_for_every_kind(start_server: Start, status: int, told: str) -> None:
    pytest.importorskip("websockets", reason="needs the library websockets")
    with web(lambda handler: reply(handler, status)) as url:
        server = start_server(remote_hosts=("127.0.0.1",))
        for kind in ("poll", "sse", "websocket"):
            address = url.replace("http:", "ws:") if kind == "websocket" else url
            put(server, kind=kind, url=f"{address}?token={SECRET}")
            until(lambda: state(server)["state"] in ("failed", "waiting"))
            assert (kind, state(server)["state"]) == (kind, told)
            assert str(status) in state(server)["error"] and SECRET not in state(server)["error"]
            server.client.delete("/sources/it")


@pytest.mark.parametrize(
    "name",
    ["token", "key", "api_key", "secret", "password", "access_token", "sig", "X-Amz-Signature"]
    + ["appid", "APPID", "sastoken", "pass", "user_pass", "bearer"],
)
def test_a_key_of_an_address_is_hidden(name: str) -> None:
    assert shown_url(f"http://e/a?n=1&{name}={SECRET}&m=2#f") == f"http://e/a?n=1&{name}=***&m=2#f"
    assert (
        shown_url("http://e/a?monkey=1&keys=2&compass=3&token")
        == "http://e/a?monkey=1&keys=2&compass=3&token"
    )


@pytest.mark.parametrize(
    ("role", "kind", "scheme"),
    [
        ("sources", "poll", "http"),
        ("sources", "sse", "http"),
        ("sources", "websocket", "ws"),
        ("sinks", "webhook", "http"),
    ],
)
def test_a_hidden_key_stays_and_goes_nowhere_else(
    start_server: Start, caplog: pytest.LogCaptureFixture, role: str, kind: str, scheme: str
) -> None:
    caplog.set_level(logging.DEBUG, "quadrill")
    server = start_server(remote_hosts=("127.0.0.1",))
    mark_path = {"stream": S} if role == "sources" else {"query": "q"}
    members = {"kind": kind, "url": f"{scheme}://127.0.0.1:1/a?token={SECRET}&n=1", **mark_path}
    path, shown = f"/{role}/it", f"{scheme}://127.0.0.1:1/a?token=***&n=1"
    made = server.client.put(path, json=members)
    assert made.status_code == 201 and made.json()["url"] == shown
    again = server.client.put(path, params={"dry_run": "true"}, json=members | {"url": shown})
    assert again.json()["change"] == "same"
    for moved in (shown.replace("/a", "/b"), shown.replace("n=1", "n=2")):
        problem_of(server.client.put(path, json=members | {"url": moved}), 400)
    problem_of(server.client.put(f"/{role}/other", json=members | {"url": shown}), 400)
    until(lambda: server.client.get(path).json()["state"] == "waiting")
    told = [server.client.get(each).text for each in (f"/{role}", path, f"{path}/dead-letters")]
    assert [each for each in (*told, *caplog.messages) if SECRET in each] == []


def test_a_dump_has_a_variable_for_a_key_of_an_address() -> None:
    taken: dict[str, str] = {}
    found = with_references("sources", "it", {"url": "http://e/a?key=***&sig=***&n=1"}, taken)
    assert found["url"] == "http://e/a?key=${QUADRILL_SOURCE_IT_URL}&sig=${QUADRILL_SOURCE_IT_URL_}&n=1"
    assert set(taken) == {"QUADRILL_SOURCE_IT_URL", "QUADRILL_SOURCE_IT_URL_"}
