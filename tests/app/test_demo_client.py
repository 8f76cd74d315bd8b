"""The demo's client repeats what a full server refuses, and says what another refusal means."""

from __future__ import annotations

import httpx
import pytest

from quadrill.app.demo import client as demo
from quadrill.app.demo.client import DemoClient, DemoError


def test_a_request_that_a_full_server_refuses_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [httpx.Response(429, headers={"Retry-After": "3"}), httpx.Response(200, json={"pushed": 1})]
    slept: list[float] = []
    monkeypatch.setattr(httpx.Client, "request", lambda *_, **__: answers.pop(0))
    monkeypatch.setattr(demo.time, "sleep", slept.append)
    with DemoClient("http://127.0.0.1:1", None) as client:
        client.push("http://example.org/s", ["{}"])
    assert slept == [3.0] and not answers


def test_a_refusal_is_an_error_of_the_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = {"detail": "there is no stream s", "code": "unknown-stream"}
    monkeypatch.setattr(httpx.Client, "request", lambda *_, **__: httpx.Response(404, json=problem))
    with DemoClient("http://127.0.0.1:1", None) as client:
        client.drop_source("s")
        with pytest.raises(DemoError, match="there is no stream s"):
            client.heartbeat("http://example.org/s", 0)


def test_a_server_that_stays_full_asks_for_less_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(httpx.Client, "request", lambda *_, **__: httpx.Response(429))
    monkeypatch.setattr(demo.time, "sleep", lambda _: None)
    with DemoClient("http://127.0.0.1:1", None) as client, pytest.raises(DemoError) as error:
        client.update("INSERT DATA {}")
    assert error.value.hint == "choose a lower --speed"
