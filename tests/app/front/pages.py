"""Scenarios of the page, of tokens and sessions, of settings that change addresses, and of work on files."""

from __future__ import annotations

from collections.abc import Iterator

from .asking import (
    ADMIN,
    CONTINUOUS,
    FORM,
    JSON,
    LINES,
    QUADS,
    TEXT,
    TOKENS,
    TURTLE,
    UPDATE,
    ask,
    bearer,
    setting_up,
)
from .engine import EVENTS, TRIG, line
from .replay import Scenario, Step


def scenarios() -> Iterator[Scenario]:
    """All scenarios of the page, of tokens and of files."""
    yield Scenario("page", {"max_wrong_tokens": 1000}, TOKENS, [*setting_up(bearer("admin")), *_page()])
    yield Scenario("page-open", {}, {}, [*setting_up(), *_pages()])
    public = {"public_url": "https://db.example/base/"}
    yield Scenario("public-url", public, {}, [*_public()])
    yield Scenario(
        "proxy", {"trusted_proxies": ["127.0.0.1"], **public}, {}, [*_public("X-Forwarded-For: 192.0.2.7")]
    )
    limited = {"max_wrong_tokens": 2, "max_requests_per_token": 40}
    yield Scenario("limits-of-tokens", limited, TOKENS, [*_tokens()])
    yield Scenario(
        "work",
        {"backup_folder": "$FOLDER", "load_folders": ["$FOLDER"], "sink_folder": "$FOLDER"},
        {},
        [*setting_up(), *_work()],
    )


_ADDRESSES = """
/ /ui/queries /ui/settings /ui/queries/q /ui/queries/none /ui/register /ui/streams /ui/streams/one?iri=http://localhost/s
/ui/streams/one /ui/connectors /ui/sparql /ui/store /ui/store?iri=urn:g /ui/why /ui/rules /ui/rules/none
/ui/shapes /ui/shapes/none /ui/jobs /ui/processes /ui/demo /login /login?next=/ui/jobs
/ui/static/quadrill.css /ui/ /ui
"""


def _pages(*headers: str) -> Iterator[Step]:
    for target in _ADDRESSES.split():
        yield ask("GET", target, "Accept: text/html", *headers)
        yield ask("HEAD", target, "Accept: text/html", *headers)
        yield ask("POST", target, FORM, *headers, body="")
    for accept in ("text/html", "*/*", "application/json"):
        yield ask("GET", "/ui/none", f"Accept: {accept}", *headers)


def _page() -> Iterator[Step]:
    yield from _pages()
    cookie = "Cookie: quadrill_session=$SESSION"
    for kind, body in (
        (FORM, "token=wrong-token-0123456789"),
        (FORM, ""),
        (FORM, f"token={ADMIN}&next=/ui/jobs"),
        (FORM, f"token={ADMIN}&next=https://evil.example/"),
        (JSON, "{}"),
        (JSON, "["),
        (JSON, '{"token": 5}'),
        (TEXT, ADMIN),
        (JSON, f'{{"token": "{ADMIN}"}}'),
    ):
        yield ask("POST", "/login", kind, body=body)
        yield ask("POST", "/login", kind, "Accept: text/html", body=body)
    yield from _pages(cookie)
    foreign = "Origin: https://evil.example"
    for headers in (
        (cookie,),
        (cookie, foreign),
        (cookie, "Origin: http://$HOST"),
        ("Cookie: quadrill_session=none",),
        (cookie, bearer("read")),
    ):
        yield ask("GET", "/queries", *headers)
        yield ask("POST", "/update", UPDATE, *headers, body="INSERT DATA { <urn:c> <urn:p> 1 }")
        yield ask("POST", "/query", FORM, *headers, body="query=ASK%7B%7D")
        yield ask("POST", "/streams/s", LINES, *headers, body=line(5000, 1))
        yield ask("PUT", "/sinks/none", JSON, *headers, body="{}")
        yield ask("GET", "/queries/q/results?from=0", EVENTS, *headers, fresh=True)
    for value in (
        "Basic YTpi",
        "Bearer",
        "Bearer ",
        "bearer " + ADMIN,
        f"Bearer {ADMIN} x",
        "Bearer \xe9",
        ADMIN,
    ):
        yield ask("GET", "/queries", f"Authorization: {value}")
        yield ask("GET", "/query?query=ASK%7B%7D", f"Authorization: {value}")
    yield ask("GET", "/queries", bearer("read"), bearer("admin"))
    yield ask("GET", "/queries", bearer("read"), "Host: $HOST", host="", fresh=True)
    yield ask("GET", "/query?query=ASK%7B%7D", bearer("push"), fresh=True)
    yield ask("POST", "/sparql", UPDATE, bearer("read"), body="CLEAR ALL")
    yield ask("POST", "/sparql", FORM, bearer("read"), body="update=CLEAR+ALL")
    yield ask("POST", "/sparql", FORM, bearer("read"), body="query=ASK%7B%7D")
    for headers in ((cookie, foreign), (cookie,), ("Accept: text/html",)):
        yield ask("POST", "/logout", *headers)
        yield ask("GET", "/queries", cookie)


def _public(*headers: str) -> Iterator[Step]:
    for start in ("", "/base", "/base/base"):
        yield ask("GET", f"{start}/health/live", *headers)
        yield ask("GET", f"{start}/query?query=ASK%7B%7D", *headers)
        yield ask("PUT", f"{start}/streams/s", JSON, *headers, body="{}")
        yield ask("PUT", f"{start}/queries/q", TEXT, *headers, body=CONTINUOUS)
        yield ask("PUT", f"{start}/stored-queries/q", TEXT, *headers, body="ASK {}")
        yield ask("POST", f"{start}/streams/s?at=5", QUADS, *headers, body="<urn:a> <urn:p> <urn:o> .")
        yield ask("POST", f"{start}/update", UPDATE, *headers, body="INSERT DATA { <urn:a> <urn:p> 1 }")
        yield ask("PUT", f"{start}/store/x", TURTLE, *headers, body="<> <urn:p> 1 .")
        for target in (
            "/",
            "",
            "/store/x",
            "/queries/q",
            "/login",
            "/ui/streams",
            "/stored-queries",
            "/nowhere",
            "/openapi.json",
            "/query",
            "/ui/static/quadrill.css",
        ):
            yield ask("GET", (start + target) or "/", *headers)
        yield ask("POST", f"{start}/logout", *headers)
        yield ask("OPTIONS", f"{start}/query", *headers)
    for host in ("db.example", "evil.example"):
        yield ask("GET", "/base/queries", *headers, host=host)
        yield ask(
            "POST", "/base/update", UPDATE, f"Origin: https://{host}", *headers, host=host, body="CLEAR ALL"
        )
    yield ask("GET", "/queries", "X-Forwarded-Proto: https", "X-Forwarded-Host: evil.example", *headers)
    yield ask("GET", "/queries", "Forwarded: for=192.0.2.9", *headers)


def _tokens() -> Iterator[Step]:
    wrong = "Authorization: Bearer wrong-token-0123456789"
    for _number in range(38):
        yield ask("GET", "/query?query=ASK%7B%7D", bearer("read"))
    for number in range(5):
        yield ask("GET", "/queries", bearer("read"))
        yield ask("GET", "/query?query=ASK%7B%7D", bearer("write"))
        yield ask("GET", ("/queries", "/query?query=ASK%7B%7D")[number % 2], wrong)
        yield ask("POST", "/streams/s?at=1", QUADS, bearer("push"), body="<urn:a> <urn:p> <urn:o> .")
        yield ask("POST", "/login", FORM, body="token=wrong-token-0123456789")
    yield ask("GET", "/health/live", wrong)


def _work() -> Iterator[Step]:
    yield ask("POST", "/backups")
    yield ask("POST", "/backups", JSON, body='{"folder": "kept"}')
    yield ask("POST", "/backups", JSON, body='{"folder": "kept"}')
    for body in ('{"folder": "../out"}', '{"folder": 5}', '{"what": 1}', "[", "{}"):
        yield ask("POST", "/backups", JSON, body=body)
        yield ask("POST", "/restores", JSON, body=body)
        yield ask("POST", "/loads", JSON, body=body)
    for body in (
        '{"source": "none.nt"}',
        '{"source": "/etc/passwd"}',
        '{"source": 5}',
        '{"source": "kept", "engine": "x"}',
    ):
        yield ask("POST", "/loads", JSON, body=body)
    for name in ("sources", "sinks"):
        for body in (
            "{}",
            '{"kind": "x"}',
            '{"kind": "webhook"}',
            '{"kind": "file", "path": "../x"}',
            '{"kind": "webhook", "stream": "http://localhost/s", "what": 1}',
            "[",
        ):
            yield ask("PUT", f"/{name}/c", JSON, body=body)
            yield ask("PUT", f"/{name}/c?dry_run=true", JSON, body=body)
    yield ask(
        "PUT",
        "/sources/signed",
        JSON,
        body='{"kind": "webhook", "stream": "http://localhost/s", "secret": "s3cret"}',
    )
    for target in ("/sources/hook", "/sources/signed"):
        for headers in ((), ("X-Hub-Signature-256: sha256=00",), ("X-Hub-Signature-256: sha256=f3",)):
            yield ask("POST", target, LINES, *headers, body=line(6000, 1))
            yield ask("POST", target, LINES, *headers, body="nonsense\n")
        yield ask("GET", target + "/dead-letters")
        yield ask("DELETE", target + "/dead-letters")
        yield ask("POST", target + ":stop")
        yield ask("POST", target, LINES, body=line(6100, 1))
        yield ask("POST", target + ":start")
    boundary = "Content-Type: multipart/form-data; boundary=cut"
    part = (
        '--cut\r\nContent-Disposition: form-data; name="f"; filename="{}"\r\nContent-Type: {}\r\n\r\n{}\r\n'
    )
    turtle = part.format("a.ttl", "text/turtle", "<urn:m> <urn:p> 1 .")
    for body in (
        turtle + "--cut--\r\n",
        turtle + part.format("b.nt", "application/octet-stream", "<urn:m> <urn:p> <urn:o> .") + "--cut--\r\n",
        "--cut--\r\n",
        "nonsense",
        part.format("a.pdf", "application/pdf", "x") + "--cut--\r\n",
        part.format("a.ttl", "text/turtle", "nonsense") + "--cut--\r\n",
    ):
        yield ask("POST", "/store?graph=urn:m", boundary, body=body)
        yield ask("POST", "/store?default", boundary, "Prefer: return=representation", body=body)
    yield ask("POST", "/store?default", "Content-Type: multipart/form-data", body=turtle)
    yield ask("PUT", "/store?default", boundary, body=turtle + "--cut--\r\n")
    for target in ("/store", "/store?graph=urn:m", "/store/m"):
        for kind in (
            TURTLE,
            QUADS,
            TRIG,
            "Content-Type: application/ld+json",
            "Content-Type: application/rdf+xml",
            "Content-Type: application/trix",
        ):
            yield ask("POST", target, kind, body="nonsense")
            yield ask("PUT", target, kind, body="")
