"""The admin page as a client without a browser sees it: negotiation, policy, escaping, sign-in."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from httpx import Client

import quadrill.static
from quadrill.app.page.views import local_target
from quadrill.app.security import hash_token
from quadrill.store.registry import TokenRecord
from tests.app.conftest import LiveServer, Start

BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"
TOKEN = "a-token-of-this-test-only"
PAGES = (
    "/",
    "/ui/queries",
    "/ui/register",
    "/ui/streams",
    "/ui/sparql",
    "/ui/store",
    "/ui/store?iri=urn:s",
    "/ui/why?quad=what",
    "/ui/rules",
    "/ui/shapes",
    "/ui/jobs",
    "/ui/processes",
    "/ui/connectors",
    "/ui/settings",
)
FOLDER = Path(quadrill.static.__file__).parent
ASSETS = sorted(
    path.relative_to(FOLDER).as_posix()
    for path in FOLDER.rglob("*.*")
    if path.suffix in (".js", ".css", ".svg") and path.relative_to(FOLDER).parts[0] != "vendor"
)


@pytest.fixture
def client(server: LiveServer) -> Client:
    return server.client


class _Reader(HTMLParser):
    """Collects elements with their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))


def test_browsers_get_the_page_and_rdf_clients_the_service_description(client: Client) -> None:
    page = client.get("/", headers={"Accept": BROWSER})
    assert page.headers["Content-Type"].startswith("text/html")
    assert "Accept" in page.headers["Vary"]
    assert client.get("/", headers={"Accept": "*/*"}).headers["Content-Type"].startswith("text/html")
    for media_type in ("text/turtle", "application/rdf+xml", "application/n-triples", "application/ld+json"):
        described = client.get("/", headers={"Accept": f"{media_type}, */*;q=0.1"})
        assert described.headers["Content-Type"].startswith(media_type)
        assert "sparql-service-description#" in described.text
        assert [each.strip() for each in described.headers["Vary"].split(",")].count("Accept") == 1
    assert client.get("/", headers={"Accept": "image/png"}).status_code == 406


@pytest.mark.parametrize("path", PAGES)
def test_a_page_has_nothing_inline_and_nothing_foreign(client: Client, path: str) -> None:
    answer = client.get(path, headers={"Accept": BROWSER})
    assert answer.status_code == 200
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy and "http" not in policy
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    for tag, attributes in _Reader(answer.text).elements:
        assert tag != "style" and "style" not in attributes
        assert not [name for name in attributes if name.startswith("on")]
        if tag == "script" and attributes.get("type") != "application/json":
            assert attributes.get("src")
        for name in ("src", "href", "action"):
            assert (attributes.get(name) or "/").startswith(("/", "#"))


def test_every_asset_that_a_page_or_a_script_names_is_there(client: Client) -> None:
    for path in PAGES:
        for _tag, attributes in _Reader(client.get(path, headers={"Accept": BROWSER}).text).elements:
            for name in ("src", "href"):
                if (attributes.get(name) or "").startswith("/ui/static/"):
                    assert client.get(attributes[name] or "").status_code == 200
    for asset in ASSETS:
        answer = client.get(f"/ui/static/{asset}")
        assert answer.status_code == 200
        for imported in re.findall(
            r'(?:from |import\()"(\.[^"]+)"', answer.text if asset.endswith(".js") else ""
        ):
            assert (FOLDER / asset).parent.joinpath(imported).resolve().is_file(), (
                f"{asset} imports {imported}"
            )


def test_scripts_build_text_never_markup() -> None:
    markup = re.compile(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|DOMParser|srcdoc"
    )
    assert [name for name in ASSETS if markup.search((FOLDER / name).read_text("utf-8"))] == []


def test_only_assets_are_served_from_the_static_folder(client: Client) -> None:
    for name in (
        "__init__.py",
        "py.typed",
        "..%2F__init__.py",
        "none.js",
        "../none.js",
        "pages",
        "pages/../../x.js",
    ):
        answer = client.get(f"/ui/static/{name}")
        assert answer.status_code == 404
        assert answer.headers["Content-Type"] == "application/problem+json"


def test_hostile_texts_stay_inside_the_state_block(client: Client) -> None:
    text = "SELECT * { ?s ?p ?o } # </script><script>alert(1)</script>"
    created = client.put(
        "/queries/hostile", content=text, headers={"Content-Type": "application/sparql-query"}
    )
    assert created.status_code == 201, created.text
    try:
        for path in ("/ui/queries", "/ui/queries/hostile"):
            shown = client.get(path, headers={"Accept": BROWSER}).text
            assert "<script>alert" not in shown
            scripts = [each for tag, each in _Reader(shown).elements if tag == "script"]
            assert [each.get("id") for each in scripts if "src" not in each] == ["state"]
    finally:
        client.delete("/queries/hostile")


def test_the_page_of_an_unknown_query_says_so(client: Client) -> None:
    answer = client.get("/ui/queries/nobody", headers={"Accept": BROWSER})
    assert answer.status_code == 404
    assert answer.headers["Content-Type"].startswith("text/html")
    assert "nobody" in answer.text


def test_with_tokens_pages_lead_to_the_login_and_assets_stay_public(start_server: Start) -> None:
    client = start_server(token=TOKEN).client
    refused = client.get("/ui/store?x=1", headers={"Accept": BROWSER})
    assert refused.status_code == 302
    assert refused.headers["Location"] == "/login?next=%2Fui%2Fstore%3Fx%3D1"
    assert client.get("/login").status_code == 200
    assert client.get("/ui/static/styles/frame.css").status_code == 200
    assert client.get("/", headers={"Accept": "text/turtle"}).status_code == 401
    assert client.post("/login", json={"token": TOKEN}).status_code == 204
    assert client.get("/ui/store", headers={"Accept": BROWSER}).status_code == 200


def test_a_token_that_may_only_push_is_told_so(start_server: Start) -> None:
    server, pusher = start_server(token=TOKEN), "a-token-that-may-only-push"
    server.services.registry.tokens.add(TokenRecord(hash_token(pusher), "push", "sensor"))
    answer = server.client.get("/", headers={"Accept": BROWSER, "Authorization": f"Bearer {pusher}"})
    assert answer.status_code == 403
    assert "the role push" in answer.text


def test_without_tokens_the_login_page_leads_on(client: Client) -> None:
    assert client.get("/login?next=/ui/store").headers["Location"] == "/ui/store"


@pytest.mark.parametrize(
    "target",
    [
        "//evil.example/",
        "/\\evil.example",
        "https://evil.example/",
        "javascript:alert(1)",
        "ui/store",
        "",
        None,
        "/a\nb",
    ],
)
def test_signing_in_never_leads_to_another_site(target: str | None) -> None:
    assert local_target(target) == "/"


def test_signing_in_leads_to_the_page_asked_for() -> None:
    assert local_target("/ui/sparql?query=ASK%20%7B%7D") == "/ui/sparql?query=ASK%20%7B%7D"


def test_files_of_the_page_are_packed_for_clients_that_accept_it(client: Client) -> None:
    path, identity = "/ui/static/base/dom.js", {"Accept-Encoding": "identity"}
    plain = client.get(path, headers=identity)
    assert "Content-Encoding" not in plain.headers and "Accept-Encoding" in plain.headers["Vary"]
    packed = client.get(path, headers={"Accept-Encoding": "gzip"})
    assert packed.headers["Content-Encoding"] == "gzip"
    assert packed.headers["Content-Type"] == plain.headers["Content-Type"]
    assert packed.content == plain.content
    assert int(packed.headers["Content-Length"]) < len(plain.content) / 2
    assert packed.headers["ETag"] != plain.headers["ETag"]
    for found, coding in ((packed, {"Accept-Encoding": "gzip"}), (plain, identity)):
        again = client.get(path, headers={**coding, "If-None-Match": found.headers["ETag"]})
        assert again.status_code == 304 and again.content == b""
    for other in ("..%2Fapp/config.py", "base/no.js", "base/..%2F..%2Fapp/config.js"):
        answer = client.get(f"/ui/static/{other}", headers={"Accept-Encoding": "gzip"})
        assert answer.status_code == 404


def test_range_of_a_file_is_not_packed(client: Client) -> None:
    path = "/ui/static/styles/charts.css"
    whole = client.get(path, headers={"Accept-Encoding": "identity"})
    part = client.get(path, headers={"Accept-Encoding": "identity", "Range": "bytes=0-1999"})
    assert part.status_code == 206 and "Content-Encoding" not in part.headers
    assert part.content == whole.content[:2000]


def test_answers_have_one_date(client: Client) -> None:
    for path in ("/ui/static/styles/charts.css", "/ui/streams"):
        assert len(client.get(path).headers.get_list("Date")) == 1
