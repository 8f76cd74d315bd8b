"""Who may do what."""

from __future__ import annotations

import httpx
import pytest

from quadrill.app import running
from quadrill.app.config import Settings
from quadrill.app.http.attempt_counts import MinuteCounter, network_of
from quadrill.app.security import TokenRequiredError, hash_token, is_loopback, new_token
from quadrill.store.registry import TokenRecord
from tests.app.conftest import LiveServer, Start, problem_of

TOKEN = "an admin token of some length"
UPDATE = {
    "content": "INSERT DATA { <urn:a> <urn:b> 1 }",
    "headers": {"Content-Type": "application/sparql-update"},
}
NQUADS = {"Content-Type": "application/n-quads"}


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:7878", "127.0.0.1.evil.example", "10.0.0.1", "[fe80::1]", ""]
)
def test_without_tokens_a_foreign_host_name_is_refused(server: LiveServer, host: str) -> None:
    problem = problem_of(server.client.get("/query?query=ASK%7B%7D", headers={"Host": host}), 403)
    assert problem["code"] == "foreign-host"


@pytest.mark.parametrize(
    "host", ["localhost", "localhost:1", "127.0.0.1", "127.8.8.8:99", "[::1]:7878", "LOCALHOST"]
)
def test_without_tokens_this_machine_is_served(server: LiveServer, host: str) -> None:
    assert server.client.get("/query?query=ASK%7B%7D", headers={"Host": host}).status_code == 200


def test_further_host_names_can_be_allowed(start_server: Start) -> None:
    server = start_server(host_names=("quadrill.internal",))
    assert server.client.get("/streams", headers={"Host": "quadrill.internal:7878"}).status_code == 200
    problem_of(server.client.get("/streams", headers={"Host": "other.internal"}), 403)


@pytest.mark.parametrize(
    "headers", [{"Origin": "http://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}]
)
def test_a_page_of_another_site_cannot_write(server: LiveServer, headers: dict[str, str]) -> None:
    before = server.services.store.reader.version
    sent = {**headers, "Content-Type": "application/sparql-update"}
    problem_of(server.client.post("/update", content="INSERT DATA { <urn:a> <urn:b> 1 }", headers=sent), 403)
    problem_of(server.client.post("/sparql", content="INSERT DATA { <urn:a> <urn:b> 1 }", headers=sent), 403)
    form = {"update": "INSERT DATA { <urn:a> <urn:b> 1 }"}
    problem_of(server.client.post("/update", data=form, headers=headers), 403)
    problem_of(server.client.post("/streams/s", content="", headers={**NQUADS, **headers}), 403)
    problem_of(server.client.put("/store?default", content="", headers={**NQUADS, **headers}), 403)
    problem_of(server.client.delete("/store", headers=headers), 403)
    problem_of(server.client.post("/queries", content="", headers=headers), 403)
    assert server.services.store.reader.version == before


def test_the_servers_own_page_may_write(server: LiveServer) -> None:
    own = {"Origin": server.url.rstrip("/"), "Content-Type": "application/sparql-update"}
    assert (
        server.client.post("/update", content="INSERT DATA { <urn:a> <urn:b> 1 }", headers=own).status_code
        == 204
    )


def test_listed_origins_may_call_and_others_get_no_cors_headers(start_server: Start) -> None:
    server = start_server(cors_origins=("http://app.example",))
    good = {"Origin": "http://app.example"}
    preflight = {**good, "Access-Control-Request-Method": "POST"}
    answer = server.client.options("/update", headers=preflight)
    assert answer.headers["Access-Control-Allow-Origin"] == "http://app.example"
    assert "POST" in answer.headers["Access-Control-Allow-Methods"]
    update = {**good, "Content-Type": "application/sparql-update"}
    written = server.client.post("/update", content="INSERT DATA { <urn:a> <urn:b> 1 }", headers=update)
    assert written.status_code == 204
    assert "ETag" in written.headers["Access-Control-Expose-Headers"]
    other = server.client.get("/streams", headers={"Origin": "http://evil.example"})
    assert "Access-Control-Allow-Origin" not in other.headers


def test_every_origin_may_read_when_all_are_allowed_but_not_write(start_server: Start) -> None:
    server = start_server(cors_origins=("*",))
    any_origin = {"Origin": "http://any.example"}
    read = server.client.get("/query?query=ASK%7B%7D", headers=any_origin)
    assert read.headers["Access-Control-Allow-Origin"] == "*"
    assert "Access-Control-Allow-Credentials" not in read.headers
    problem_of(server.client.delete("/store", headers=any_origin), 403)


def test_with_a_token_every_request_needs_one(start_server: Start) -> None:
    server = start_server(token=TOKEN)
    for path in (
        "/query?query=ASK%7B%7D",
        "/store",
        "/streams",
        "/queries",
        "/changes",
        "/metrics",
        "/processes",
        "/jobs",
    ):
        answer = server.client.get(path)
        assert problem_of(answer, 401)["code"] == "unauthorised"
        assert answer.headers["WWW-Authenticate"].startswith("Bearer")
    problem_of(server.client.get("/streams", headers=bearer("wrong")), 401)
    problem_of(server.client.get("/streams", headers={"Authorization": "Basic eDp5"}), 401)
    problem_of(server.client.post("/update", **UPDATE), 401)  # type: ignore[arg-type]
    assert server.client.get("/streams", headers=bearer(TOKEN)).status_code == 200
    assert server.client.get("/health/live").status_code == 200
    assert server.client.get("/openapi.json").status_code == 200
    # A token is needed, so that names and origins need not be checked.
    assert server.client.get("/streams", headers={**bearer(TOKEN), "Host": "any.example"}).status_code == 200


ROLES = {
    "read": {
        "GET /streams": 200,
        "POST /query": 200,
        "POST /streams": 403,
        "POST /update": 403,
        "POST /backups": 403,
    },
    "push": {
        "GET /streams": 403,
        "POST /query": 403,
        "POST /streams": 200,
        "POST /update": 403,
        "POST /backups": 403,
    },
    "write": {
        "GET /streams": 200,
        "POST /query": 200,
        "POST /streams": 200,
        "POST /update": 204,
        "POST /backups": 403,
    },
    "admin": {
        "GET /streams": 200,
        "POST /query": 200,
        "POST /streams": 200,
        "POST /update": 204,
        "POST /backups": 400,
    },
}


def test_roles_open_what_they_say(start_server: Start) -> None:
    server = start_server()
    for role, expected in ROLES.items():
        token = new_token()
        server.services.registry.tokens.add(TokenRecord(hash_token(token), role, role, 0))
        server.services.security.refresh()
        auth = bearer(token)
        query = {"Content-Type": "application/sparql-query"}
        update = {"Content-Type": "application/sparql-update"}
        push = {**NQUADS, **auth}
        got = {
            "GET /streams": server.client.get("/streams", headers=auth),
            "POST /query": server.client.post("/query", content="ASK {}", headers={**query, **auth}),
            "POST /streams": server.client.post(
                "/streams/s?at=1", content="<urn:a> <urn:b> <urn:c> .", headers=push
            ),
            "POST /update": server.client.post("/update", content="CLEAR ALL", headers={**update, **auth}),
            "POST /backups": server.client.post("/backups", json={"folder": "x"}, headers=auth),
        }
        assert {name: answer.status_code for name, answer in got.items()} == expected
        posted = server.client.post("/sparql", content="CLEAR ALL", headers={**update, **auth})
        assert posted.status_code == expected["POST /update"]


def test_only_hashes_of_tokens_are_stored(start_server: Start) -> None:
    server = start_server()
    token = new_token()
    server.services.registry.tokens.add(TokenRecord(hash_token(token), "read", "", 0))
    (record,) = server.services.registry.tokens.all()
    assert token not in repr(record)


def test_the_page_logs_in_with_a_strict_cookie(start_server: Start) -> None:
    server = start_server(token=TOKEN)
    problem_of(server.client.post("/login", json={"token": "wrong"}), 401)
    answer = server.client.post("/login", data={"token": TOKEN})
    assert answer.status_code == 303
    cookie = answer.headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert TOKEN not in cookie
    session = {"Cookie": cookie.partition(";")[0]}
    with httpx.Client(base_url=server.url) as page:
        assert page.get("/streams", headers=session).status_code == 200
        forged = {**session, "Origin": "http://evil.example", "Content-Type": "application/sparql-update"}
        problem_of(page.post("/update", content="CLEAR ALL", headers=forged), 403)
        own = {**session, "Origin": server.url.rstrip("/"), "Content-Type": "application/sparql-update"}
        assert page.post("/update", content="CLEAR ALL", headers=own).status_code == 204
        page.post("/logout", headers={**session, "Content-Type": "application/json"})
        problem_of(page.get("/streams", headers=session), 401)


def test_another_address_than_loopback_needs_a_token() -> None:
    with pytest.raises(TokenRequiredError, match="without a token"):
        with running.serve(Settings(data=":memory:", port=0, host="0.0.0.0")):
            pass
    with pytest.raises(TokenRequiredError, match="characters"):
        with running.serve(Settings(data=":memory:", port=0, token="short")):
            pass


def test_loopback_is_what_the_machine_itself_is() -> None:
    assert all(is_loopback(host) for host in ("localhost", "127.0.0.1", "127.1.2.3", "::1", "[::1]"))
    assert not any(
        is_loopback(host)
        for host in ("0.0.0.0", "::", "example.org", "192.168.0.1", "localhost.evil.example")
    )


def test_an_address_that_shows_many_wrong_tokens_has_to_wait(start_server: Start) -> None:
    server = start_server(token=TOKEN, max_wrong_tokens=5)
    later = new_token()
    server.services.registry.tokens.add(TokenRecord(hash_token(later), "read", "later", 0))
    server.services.security.refresh()
    assert server.client.get("/streams", headers=bearer(TOKEN)).status_code == 200
    for number, path in enumerate(("/streams", "/query?query=ASK%7B%7D") * 2):
        problem_of(server.client.get(path, headers=bearer(f"guess {number}")), 401)
    problem_of(server.client.post("/login", json={"token": "a fifth guess"}), 401)
    for path in ("/streams", "/query?query=ASK%7B%7D"):
        answer = server.client.get(path, headers=bearer("one more"))
        assert problem_of(answer, 429)["code"] == "too-many-requests"
        assert 1 <= int(answer.headers["Retry-After"]) <= 60
    problem_of(server.client.post("/login", json={"token": "and another"}), 429)
    # A right one is never refused by this limit, also one that was not shown before.
    assert server.client.get("/streams", headers=bearer(later)).status_code == 200
    assert server.client.get("/streams", headers=bearer(TOKEN)).status_code == 200
    assert server.client.get("/query?query=ASK%7B%7D", headers=bearer(TOKEN)).status_code == 200
    assert server.client.get("/health/live").status_code == 200


def test_a_token_may_ask_so_often(start_server: Start) -> None:
    server = start_server(token=TOKEN, max_requests_per_token=4)
    paths = ("/streams", "/query?query=ASK%7B%7D", "/queries", "/query?query=ASK%7B%7D")
    assert [server.client.get(path, headers=bearer(TOKEN)).status_code for path in paths] == [200] * 4
    for path in paths:
        assert "Retry-After" in server.client.get(path, headers=bearer(TOKEN)).headers
        problem_of(server.client.get(path, headers=bearer(TOKEN)), 429)


def test_counts_of_senders_are_bounded_and_end_after_a_minute() -> None:
    now = [0.0]
    counts = MinuteCounter(2, lambda: now[0])
    for _ in range(2):
        assert counts.wait_s("a") == 0
        counts.count("a")
    now[0] = 20.0
    assert (counts.wait_s("a"), counts.wait_s("b")) == (40.0, 0)
    now[0] = 60.0
    assert counts.wait_s("a") == 0
    counts.count("a")
    assert counts.wait_s("a") == 0
    for number in range(30_000):
        counts.count(str(number))
    assert len(counts._counts) <= 10_000
    assert network_of("2001:db8:1:2:3::4%eth0") == network_of("2001:db8:1:2::5") == "2001:db8:1:2::/64"
    assert network_of("::ffff:10.0.0.1") == "10.0.0.1"


def test_a_failed_look_up_counts_once(start_server: Start) -> None:
    server = start_server(token=TOKEN, max_requests_per_token=4)
    for _ in range(4):
        problem_of(server.client.get("/query?query=ASK%7B%7D&timeout=soon", headers=bearer(TOKEN)), 400)
    problem_of(server.client.get("/query?query=ASK%7B%7D&timeout=soon", headers=bearer(TOKEN)), 429)


def test_token_of_an_unknown_role_keeps_the_server_closed(start_server: Start) -> None:
    server = start_server()
    server.services.registry.tokens.add(TokenRecord(hash_token("x" * 32), "auditor", "", 0))
    server.services.security.refresh()
    assert server.client.get("/jobs").status_code == 401
    assert server.client.get("/jobs", headers={"Authorization": f"Bearer {'x' * 32}"}).status_code == 401


def test_wrong_token_is_looked_up_once_between_two_readings(
    start_server: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = start_server(token="the-first-admin-token", max_wrong_tokens=0)
    asked: list[str] = []
    monkeypatch.setattr(server.services.security._tokens, "get", asked.append)
    for _ in range(20):
        assert server.client.get("/jobs", headers={"Authorization": "Bearer wrong"}).status_code == 401
    assert len(asked) <= 3, "a reading may have come between"


@pytest.mark.parametrize("path", ["/logout", "//logout", "/log%6Fut", "/login", "//login", "/log%69n"])
def test_page_of_another_site_logs_nobody_in_or_out_by_any_spelling_of_the_path(
    server: LiveServer, path: str
) -> None:
    url = f"{server.url.rstrip('/')}{path}"
    answer = httpx.post(url, headers={"Origin": "https://other.example"}, data={"token": "x"})
    assert problem_of(answer, 403)["code"] == "foreign-origin"
