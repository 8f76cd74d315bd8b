"""No text reaches the network unless its host is allowed: tried against a server that notes every request."""

from __future__ import annotations

import gzip
import http.server
import subprocess
import sys
import threading
from collections.abc import Iterator

import httpx
import pytest

from quadrill.store import remote
from quadrill.store.errors import (
    LimitError,
    NetworkRefusedError,
    QueryTextError,
    RdfSyntaxError,
    ReportedError,
    UnsupportedError,
)
from quadrill.store.hosts import AllowedHosts
from quadrill.store.quads.options import StoreOptions
from quadrill.store.quads.quad_store import QuadStore
from quadrill.store.remote import Fetched, FetchError, fetch_rdf, http_fetcher

DATA = b"@prefix ex: <http://e/> . ex:a ex:p _:b . _:b ex:p <rel> ."


class Listener:
    """A server on the loopback interface and the paths it was asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        listener = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                listener.asked.append(self.path)
                status, headers, body = {
                    "/data": (200, {"Content-Type": "text/turtle; charset=utf-8"}, DATA),
                    "/data.ttl": (200, {"Content-Type": "application/octet-stream"}, DATA),
                    "/data.ttl.gz": (200, {"Content-Type": "application/gzip"}, gzip.compress(DATA)),
                    "/packed": (200, {"Content-Type": "text/turtle"}, gzip.compress(DATA)),
                    "/sent.ttl.gz": (
                        200,
                        {"Content-Type": "text/turtle", "Content-Encoding": "gzip"},
                        gzip.compress(DATA),
                    ),
                    "/bomb.ttl.gz": (
                        200,
                        {"Content-Type": "application/gzip"},
                        gzip.compress(b" " * 1_000_000),
                    ),
                    "/cut.ttl.gz": (200, {"Content-Type": "application/gzip"}, gzip.compress(DATA)[:-9]),
                    "/html": (200, {"Content-Type": "text/html"}, b"<html></html>"),
                    "/bad": (200, {"Content-Type": "text/turtle"}, b"<a> <b"),
                    "/moved": (302, {"Location": "/data"}, b""),
                    "/away": (302, {"Location": "http://other.invalid/data"}, b""),
                    "/loop": (302, {"Location": "/loop"}, b""),
                }.get(self.path, (404, {}, b""))
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_POST = do_GET

            def log_message(self, *args: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        self.host = f"127.0.0.1:{self._server.server_port}"
        self.url = f"http://{self.host}/"

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def listener() -> Iterator[Listener]:
    server = Listener()
    yield server
    server.close()


@pytest.fixture
def store() -> QuadStore:
    quads = QuadStore.open(None)
    quads.writer.update("INSERT DATA { <http://s> <http://p> true }")
    return quads


CALLS = [
    "SELECT * { SERVICE <URL> {} }",
    "SELECT * { service silent <URL> {} }",
    "SELECT * { SERVICE:x {} }",
    "SELECT * { service:x { ?a ?b ?c } }",
    "SELECT * { SERVICESILENT<URL>{} }",
    "SELECT * { SERVICESILENT:x{} }",
    "SELECT * { ?s ?p trueSERVICE<URL>{} }",
    "SELECT * { ?s ?p trueSERVICE:x{} }",
    "SELECT * { ?s ?p true SERVICE<URL>{} }",
    "SELECT * { #\r SERVICE <URL> {} \n }",
    "SELECT * { FILTER(1<2)SERVICE<URL>{} }",
    "SELECT * { ?s ?p 1SERVICE<URL>{} }",
    "SELECT * { ?s ?p 1.SERVICE<URL>{} }",
    "SELECT * { ?s ?p :.SERVICE<URL>{} }",
    "SELECT * { ?s ?p ?o.SERVICE<URL>{} }",
    "SELECT * { SERVICE#comment\n<URL>{} }",
    "SELECT * { SERVICE ?where {} }",
    "SELECT * { VALUES ?where { <URL> } SERVICE ?where {} }",
    "ASK { FILTER EXISTS { SERVICE<URL> {} } }",
    "SELECT * { { SELECT * { SERVICE <URL> {} } } }",
    # An IRI that looks like a comparison opens what looks like a string or a comment.
    "SELECT * { { ?s ?p ( ?x <?'''> ) } UNION { SERVICE <URL> { } } UNION { ?s ?p (?x <?'''>) } }",
    "SELECT * { { ?s ?p ( ?x <?#> ) } UNION { SERVICE <URL> { } } }",
    "SELECT * { { ?s ?p ( ?x <a'> ) } UNION { SERVICE <URL> { } } UNION { ?s ?p (?x <a'>) } }",
    "SELECT * { ?s ?p ?o FILTER(?o<?b&&'x> ') SERVICE <URL> {} BIND(' ' AS ?q) }",
    "SELECT * { ?s ?p ?o FILTER(?o<str(?b)&&'x> ') SERVICE <URL> {} BIND(' ' AS ?q) }",
    "SELECT * { ?s ?p ?o FILTER(true<str(?b)&&'x> ') SERVICE:x {} BIND(' ' AS ?q) }",
]


@pytest.mark.parametrize("text", CALLS)
@pytest.mark.parametrize("hosts", [(), ("other.example",)], ids=["none allowed", "another allowed"])
def test_a_query_does_not_reach_a_host_that_is_not_allowed(
    listener: Listener, store: QuadStore, text: str, hosts: tuple[str, ...]
) -> None:
    store.reader.querier._hosts = AllowedHosts(hosts)
    prologue = f"PREFIX : <{listener.url}> PREFIX service: <{listener.url}> BASE <{listener.url}> "
    query = prologue + text.replace("URL", listener.url)
    if "service silent" in text:
        # A plain SILENT call has one empty solution, as one that fails has.
        assert store.reader.solutions(query)[1] == [()]
    else:
        with pytest.raises(ReportedError):
            store.reader.solutions(query)
    assert listener.asked == []


@pytest.mark.parametrize(
    "text",
    [
        "LOAD <URL>",
        "LOAD <URL> INTO GRAPH <http://g>",
        "INSERT DATA { <http://a> <http://p> 1 } ; LOAD <URL>",
        "PREFIX x: <URL> LOAD x:data",
        "BASE <URL> LOAD <data>",
        "INSERT { ?s ?p ?o } WHERE { SERVICE <URL> { ?s ?p ?o } }",
        "PREFIX x: <URL> INSERT {} WHERE { SERVICE x:a {} } ; PREFIX x: <http://ok.example> CLEAR ALL",
        "BASE <URL> INSERT DATA { ?s ?p (?x <?'''> ) } ; LOAD <URL> ; INSERT DATA { ?s ?p (?x <?'''>) }",
        "BASE <URL> INSERT { ?s ?p (?x <?'''>) } WHERE {};LOAD <URL>;INSERT { ?s ?p (?x <?'''>) } WHERE {}",
        "BASE <URL> INSERT { ?s ?p (?x <?#>) } WHERE {} ; LOAD <URL> ; INSERT { \n ?s ?p ?o } WHERE {}",
    ],
)
def test_an_update_does_not_reach_a_host_that_is_not_allowed(
    listener: Listener, store: QuadStore, text: str
) -> None:
    store.writer._hosts = AllowedHosts(["ok.example"])
    with pytest.raises(ReportedError):
        store.writer.update(text.replace("URL", listener.url))
    assert listener.asked == []
    assert store.reader.version == 1


def test_a_name_that_only_looks_like_service_is_no_call(store: QuadStore) -> None:
    prologue = "PREFIX service: <http://e/> PREFIX ex: <http://e/> "
    for text in (
        "SELECT * { ?s service:x ?o }",
        "SELECT * { GRAPH service:x { ?s ?p ?o } }",
        "SELECT * FROM service:x { ?s ?p ?o }",
        "SELECT * { ?service ex:service ?o . { ?s ?p ?o } }",
        "SELECT * { ?s ?p 'SERVICE <http://x> {}' }",
        "SELECT * { ?s ?p ?o # SERVICE <http://x> { }\n }",
        "SELECT * { ?s ?p ?o FILTER(?o < 5 && ?o > 'SERVICE') }",
        "SELECT * { ?s <http://e/ns#service> ?o }",
    ):
        store.reader.solutions(prologue + text)


def test_an_allowed_service_is_reached(listener: Listener, store: QuadStore) -> None:
    store.reader.querier._hosts = AllowedHosts([listener.host])
    with pytest.raises(ReportedError, match="404"):
        store.reader.solutions(f"PREFIX x: <{listener.url}> SELECT * {{ SERVICE x:sparql {{ ?s ?p ?o }} }}")
    assert [path.partition("?")[0] for path in listener.asked] == ["/sparql"]


def test_redirects_of_a_service_are_followed_to_allowed_hosts_only(
    listener: Listener, store: QuadStore
) -> None:
    store.reader.querier._hosts = AllowedHosts([listener.host])
    for path in ("moved", "away"):
        with pytest.raises(ReportedError):
            store.reader.solutions(f"SELECT * {{ SERVICE <{listener.url}{path}> {{ ?s ?p ?o }} }}")
    assert [path.partition("?")[0] for path in listener.asked] == ["/moved", "/data", "/away"]


def test_the_errors_name_the_host_and_the_variable(store: QuadStore) -> None:
    with pytest.raises(NetworkRefusedError, match="SERVICE <http://127.0.0.1/> is refused"):
        store.reader.query("SELECT * { SERVICE <http://127.0.0.1/> {} }")
    with pytest.raises(UnsupportedError, match="SERVICE with a variable"):
        store.reader.query("SELECT * { SERVICE ?x {} }")
    with pytest.raises(NetworkRefusedError, match="LOAD <http://127.0.0.1/x>"):
        store.writer.update("LOAD <http://127.0.0.1/x>")


@pytest.mark.parametrize(
    ("hosts", "iri", "allowed"),
    [
        ([], "http://example.org/", False),
        (["example.org"], "http://example.org/x", True),
        (["example.org"], "https://EXAMPLE.org:8443/x", True),
        (["example.org:8080"], "http://example.org:8080/", True),
        (["example.org:8080"], "http://example.org/", False),
        (["example.org:443"], "https://example.org/", True),
        (["example.org"], "http://example.org.evil/", False),
        (["example.org"], "http://example.org@evil/", False),
        (["example.org"], "file://example.org/etc/passwd", False),
        (["example.org"], "http:///x", False),
        (["example.org"], "http://example.org:port/", False),
        (["[::1]:80"], "http://[::1]/", True),
    ],
)
def test_hosts_are_allowed_by_exact_name_and_port(hosts: list[str], iri: str, allowed: bool) -> None:
    assert AllowedHosts(hosts).allows(iri) is allowed


def test_load_fetches_from_an_allowed_host_and_makes_one_commit(listener: Listener) -> None:
    quads = QuadStore.open(None, StoreOptions(allowed_hosts=AllowedHosts([listener.host])))
    commit = quads.writer.update(f"LOAD <{listener.url}data> INTO GRAPH <http://g>")
    assert {str(quad.graph_name) for quad in commit.added} == {"<http://g>"} and len(commit.added) == 2
    with quads.reader.query(f"ASK {{ GRAPH <http://g> {{ ?b ?p <{listener.url}rel> }} }}") as result:
        assert result.boolean
    quads.writer.update(f"LOAD <{listener.url}moved>")
    assert quads.reader.graph_counts()[commit.created[0]] == 2 and quads.reader.quad_count == 4


@pytest.mark.parametrize(
    ("path", "error", "match"),
    [
        ("missing", FetchError, "status 404"),
        ("html", FetchError, "not an RDF format"),
        ("bad", RdfSyntaxError, "malformed Turtle"),
        ("away", NetworkRefusedError, "other.invalid"),
        ("loop", FetchError, "redirects"),
    ],
)
def test_what_cannot_be_loaded_says_why_and_changes_nothing(
    listener: Listener, path: str, error: type[ReportedError], match: str
) -> None:
    quads = QuadStore.open(None, StoreOptions(allowed_hosts=AllowedHosts([listener.host])))
    with pytest.raises(error, match=match):
        quads.writer.update(f"INSERT DATA {{ <http://a> <http://p> 1 }} ; LOAD <{listener.url}{path}>")
    assert quads.reader.version == 0 and quads.reader.quad_count == 0
    assert quads.writer.update(f"LOAD SILENT <{listener.url}{path}>").changed is False


def test_load_silent_of_a_refused_host_does_nothing_and_reaches_nothing(listener: Listener) -> None:
    quads = QuadStore.open(None)
    assert quads.writer.update(f"LOAD SILENT <{listener.url}data>").changed is False
    assert listener.asked == []


def test_a_document_without_a_media_type_is_read_by_its_ending(listener: Listener) -> None:
    hosts = AllowedHosts([listener.host])
    assert len(fetch_rdf(http_fetcher(hosts), f"{listener.url}data.ttl")) == 2


def test_a_document_over_the_limit_is_refused(listener: Listener) -> None:
    fetch = http_fetcher(AllowedHosts([listener.host]), max_bytes=10)
    with pytest.raises(LimitError, match="10 bytes"):
        fetch(f"{listener.url}data")


@pytest.mark.parametrize("path", ["data.ttl.gz", "packed", "sent.ttl.gz"])
def test_a_gzip_file_is_unpacked(listener: Listener, path: str) -> None:
    quads = QuadStore.open(None, StoreOptions(allowed_hosts=AllowedHosts([listener.host])))
    assert len(quads.writer.update(f"LOAD <{listener.url}{path}>").added) == 2


def test_a_gzip_file_is_unpacked_within_the_limit(listener: Listener) -> None:
    fetch = http_fetcher(AllowedHosts([listener.host]), max_bytes=100_000)
    with pytest.raises(LimitError, match="100,000 bytes when unpacked"):
        fetch(f"{listener.url}bomb.ttl.gz")
    with pytest.raises(FetchError, match="damaged gzip file"):
        fetch(f"{listener.url}cut.ttl.gz")


def test_an_injected_fetcher_serves_load() -> None:
    def fetch(iri: str) -> Fetched:
        return Fetched(b"<http://a> <http://p> <x> .", "text/turtle", iri)

    quads = QuadStore.open(None, StoreOptions(allowed_hosts=AllowedHosts(["example.org"]), fetcher=fetch))
    commit = quads.writer.update("LOAD <http://example.org/doc>")
    assert [str(quad.object) for quad in commit.added] == ["<http://example.org/x>"]


BEHIND = "SELECT * { ?s ?p (?x <?#>) } "


@pytest.mark.parametrize(
    "text",
    [
        "service" * 30_000,
        "service " * 30_000,
        "service#" * 30_000,
        "service:" * 30_000,
        "service<a" * 30_000,
        "service" + " " * 200_000,
        "load" + "\n" * 200_000 + "load",
        "service silent" * 15_000,
    ],
)
def test_a_text_full_of_possible_calls_is_judged_at_once(store: QuadStore, text: str) -> None:
    with pytest.raises(ReportedError):
        store.reader.query(BEHIND + text)


def test_a_silent_load_that_loaded_nothing_is_told_to_the_operator(
    store: QuadStore, caplog: pytest.LogCaptureFixture
) -> None:
    store.writer.update("LOAD SILENT <http://user:secret@127.0.0.1:9/data/x?token=secret#secret>")
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == [
        "LOAD SILENT of <http://127.0.0.1:9/data/x> loaded nothing: host-not-allowed"
    ]


@pytest.mark.parametrize("between", [" ", "#x service y\n", " silent #{\n", "silent"])
@pytest.mark.parametrize("name", ["<URL>", ":x", "x:a\\#b\\'c", "x:aservice", "?x"])
def test_what_may_be_a_call_behind_a_doubtful_sign_is_refused(
    store: QuadStore, between: str, name: str
) -> None:
    with pytest.raises(ReportedError, match="may hide a call"):
        store.reader.query(f"{BEHIND} SERVICE{between}{name} {{}}")


def test_a_comparison_with_an_iri_hides_no_call(store: QuadStore, listener: Listener) -> None:
    with pytest.raises(ReportedError, match="may hide a call"):
        store.reader.query(
            f"SELECT * {{ FILTER(1<<x:'>||true) SERVICE <{listener.url}> {{ ?a ?b ?c }} #'\n}}"
        )
    assert listener.asked == []


@pytest.mark.parametrize(
    ("before", "after", "same"),
    [
        ("https://h/a", "http://h/b", False),
        ("https://h/a", "https://h/b", True),
        ("http://h/a", "https://h/a", True),
        ("http://h/a", "http://g/a", False),
    ],
)
def test_what_a_host_is_told_is_not_told_in_clear_after_a_redirect(
    before: str, after: str, same: bool
) -> None:
    assert remote._same_host(httpx.URL(before), httpx.URL(after)) is same


@pytest.mark.process
def test_process_that_evaluates_queries_starts_without_the_http_library() -> None:
    code = "import sys, quadrill.store.sparql.query_worker; print('httpx' in sys.modules)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown == "False\n"


@pytest.mark.parametrize("iri", ["<http://[bad>", "e:x", "<x>"])
def test_what_names_no_iri_is_told(iri: str) -> None:
    store = QuadStore.open(None, StoreOptions(allowed_hosts=AllowedHosts(["h:1"])))
    call = f"{{ SERVICE {iri} {{ ?s ?p ?o }} }}"
    with pytest.raises(QueryTextError, match="is not a valid IRI here"):
        store.reader.query(f"SELECT * {call}")
    for text in (f"LOAD {iri}", f"INSERT {{ ?s ?p ?o }} WHERE {call}"):
        with pytest.raises(QueryTextError, match="is not a valid IRI here"):
            store.writer.update(text)
