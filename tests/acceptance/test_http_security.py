"""Tokens and roles, hosts and origins, the page's cookie."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from .bench import Bench, Server, problem, run_cli

TURTLE = {"Content-Type": "text/turtle"}
UPDATE = {"Content-Type": "application/sparql-update"}
TRIPLE = "<http://e/a> <http://e/p> 1 ."


@pytest.mark.parametrize("host", ["evil.example", "evil.example:7878", "localhost.evil.example"])
def test_without_tokens_a_host_that_is_not_loopback_gets_403(bench: Bench, host: str) -> None:
    problem(bench.client.get("/streams", headers={"Host": host}), 403)
    problem(bench.client.post("/update", content="CLEAR ALL", headers={**UPDATE, "Host": host}), 403)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]"])
def test_loopback_names_are_hosts(bench: Bench, host: str) -> None:
    port = bench.server.url.rsplit(":", 1)[1]
    assert bench.client.get("/streams", headers={"Host": f"{host}:{port}"}).status_code == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "https://localhost.evil.example", "null"])
def test_a_write_of_another_site_gets_403(bench: Bench, origin: str) -> None:
    away = {"Origin": origin}
    problem(bench.client.post("/update", content="CLEAR ALL", headers={**UPDATE, **away}), 403)
    problem(bench.client.put("/store?default", content=TRIPLE, headers={**TURTLE, **away}), 403)
    problem(bench.client.post("/streams/x?at=1", content=TRIPLE, headers={**TURTLE, **away}), 403)
    problem(
        bench.client.post(
            "/queries?name=x", content="ASK {}", headers={"Content-Type": "text/plain", **away}
        ),
        403,
    )


def test_a_write_of_the_own_page_passes(bench: Bench) -> None:
    answer = bench.client.post("/update", content="CLEAR ALL", headers={**UPDATE, "Origin": bench.server.url})
    assert answer.status_code == 204


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: Any) -> Iterator[tuple[Server, dict[str, str]]]:
    """A server with an admin token, and a token of every role."""
    data = str(tmp_path_factory.mktemp("guarded") / "data")
    tokens = {"admin": "the-admin-token-of-this-test"}
    for role in ("read", "push", "write"):
        code, out, error = run_cli("token", "--data", data, "add", role, "--create")
        assert code == 0, error
        tokens[role] = out.split()[-1]
    server = Server("--data", data, environment={"QUADRILL_TOKEN": tokens["admin"]})
    yield server, tokens
    assert server.stop() == 0


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def test_with_tokens_a_request_without_one_is_401(guarded: tuple[Server, dict[str, str]]) -> None:
    server, _ = guarded
    for answer in (
        server.client.get("/streams"),
        server.client.get("/query", params={"query": "ASK {}"}),
        server.client.post("/update", content="CLEAR ALL", headers=UPDATE),
        server.client.get("/streams", headers=bearer("wrong")),
    ):
        problem(answer, 401)
        assert "Bearer" in answer.headers["WWW-Authenticate"]


def test_roles(guarded: tuple[Server, dict[str, str]]) -> None:
    server, tokens = guarded
    allowed = {
        "read": {"read"},
        "push": {"push"},
        "write": {"read", "push", "write"},
        "admin": {"read", "push", "write"},
    }
    for role, may in allowed.items():
        headers = bearer(tokens[role])
        answers = {
            "read": server.client.get("/query", params={"query": "ASK {}"}, headers=headers),
            "push": server.client.post("/streams/roles?at=1", content=TRIPLE, headers={**TURTLE, **headers}),
            "write": server.client.post("/update", content="CLEAR ALL", headers={**UPDATE, **headers}),
        }
        for right, answer in answers.items():
            if right in may:
                assert answer.status_code in (200, 204), (role, right, answer.text)
            elif not (role == "push" and right == "read"):
                problem(answer, 403)


def test_the_page_logs_in_and_gets_a_cookie(guarded: tuple[Server, dict[str, str]]) -> None:
    server, tokens = guarded
    with httpx.Client(base_url=server.url) as browser:
        problem(browser.post("/login", json={"token": "wrong"}), 401)
        answer = browser.post("/login", json={"token": tokens["read"]})
        assert answer.status_code in (200, 204, 303)
        cookie = answer.headers["Set-Cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        assert browser.get("/streams").status_code == 200
        problem(browser.post("/update", content="CLEAR ALL", headers=UPDATE), 403)


def test_tokens_are_bearer_of_the_answer_of_health_too(guarded: tuple[Server, dict[str, str]]) -> None:
    server, _ = guarded
    assert server.client.get("/health/live").status_code == 200


def test_without_a_token_the_server_refuses_another_address() -> None:
    code, out, error = run_cli("serve", "--data", ":memory:", "--host", "0.0.0.0", "--port", "0")
    assert code in (1, 2)
    assert "ready" not in out
    assert "token" in error.lower()
    assert "Traceback" not in error


def test_with_a_token_it_may_bind_elsewhere(tmp_path: Path) -> None:
    server = Server("--data", ":memory:", "--host", "0.0.0.0", environment={"QUADRILL_TOKEN": "x" * 40})
    try:
        port = server.url.rsplit(":", 1)[1]
        answer = httpx.get(f"http://127.0.0.1:{port}/streams", headers=bearer("x" * 40))
        assert answer.status_code == 200
    finally:
        assert server.stop() == 0
