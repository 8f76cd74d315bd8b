"""The admin page as a client without a browser sees it: negotiation, policy, escaping, sign-in."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
from flask import Flask
from flask.testing import FlaskClient

import quadrill.static
from quadrill.app.application import create_app
from quadrill.app.config import load_settings
from quadrill.app.routes.admin import local_target
from quadrill.app.security import hash_token
from quadrill.store.registry import TokenRecord

BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"
TOKEN = "a-token-of-this-test-only"
PAGES = (
    "/",
    "/ui/register",
    "/ui/streams",
    "/ui/sparql",
    "/ui/store",
    "/ui/jobs",
    "/ui/processes",
    "/ui/connectors",
)
FOLDER = Path(quadrill.static.__file__).parent
ASSETS = sorted(
    path.relative_to(FOLDER).as_posix()
    for path in FOLDER.rglob("*.*")
    if path.suffix in (".js", ".css", ".svg") and path.relative_to(FOLDER).parts[0] != "vendor"
)


def _app(**settings: object) -> Flask:
    return create_app(load_settings(overrides={"data": ":memory:", **settings}, environment={}))


@pytest.fixture(scope="module")
def app() -> Iterator[Flask]:
    made = _app()
    made.extensions["quadrill"].start()
    yield made
    made.extensions["quadrill"].close()


@pytest.fixture
def client(app: Flask) -> FlaskClient:
    return app.test_client()


class _Reader(HTMLParser):
    """Collects elements with their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))


def test_browsers_get_the_page_and_rdf_clients_the_service_description(client: FlaskClient) -> None:
    page = client.get("/", headers={"Accept": BROWSER})
    assert page.mimetype == "text/html"
    assert "Accept" in page.headers["Vary"]
    assert client.get("/", headers={"Accept": "*/*"}).mimetype == "text/html"
    for media_type in ("text/turtle", "application/rdf+xml", "application/n-triples", "application/ld+json"):
        described = client.get("/", headers={"Accept": f"{media_type}, */*;q=0.1"})
        assert described.mimetype == media_type
        assert b"sparql-service-description#" in described.data
        assert [each.strip() for each in described.headers["Vary"].split(",")].count("Accept") == 1
    assert client.get("/", headers={"Accept": "image/png"}).status_code == 406


@pytest.mark.parametrize("path", PAGES)
def test_a_page_has_nothing_inline_and_nothing_foreign(client: FlaskClient, path: str) -> None:
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


def test_every_asset_that_a_page_or_a_script_names_is_there(client: FlaskClient) -> None:
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


def test_only_assets_are_served_from_the_static_folder(client: FlaskClient) -> None:
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
        assert answer.mimetype == "application/problem+json"


def test_hostile_texts_stay_inside_the_state_block(client: FlaskClient) -> None:
    text = "SELECT * { ?s ?p ?o } # </script><script>alert(1)</script>"
    created = client.put("/queries/hostile", data=text, content_type="application/sparql-query")
    assert created.status_code == 201, created.text
    try:
        for path in ("/", "/ui/queries/hostile"):
            shown = client.get(path, headers={"Accept": BROWSER}).text
            assert "<script>alert" not in shown
            assert len([tag for tag, _ in _Reader(shown).elements if tag == "script"]) == 2
    finally:
        client.delete("/queries/hostile")


def test_the_page_of_an_unknown_query_says_so(client: FlaskClient) -> None:
    answer = client.get("/ui/queries/nobody", headers={"Accept": BROWSER})
    assert answer.status_code == 404
    assert answer.mimetype == "text/html"
    assert "nobody" in answer.text


def test_with_tokens_pages_lead_to_the_login_and_assets_stay_public() -> None:
    app = _app(token=TOKEN)
    try:
        client = app.test_client()
        refused = client.get("/ui/store?x=1", headers={"Accept": BROWSER})
        assert refused.status_code == 302
        assert refused.headers["Location"] == "/login?next=%2Fui%2Fstore%3Fx%3D1"
        assert client.get("/login").status_code == 200
        assert client.get("/ui/static/styles/frame.css").status_code == 200
        assert client.get("/", headers={"Accept": "text/turtle"}).status_code == 401
        assert client.post("/login", json={"token": TOKEN}).status_code == 204
        assert client.get("/ui/store", headers={"Accept": BROWSER}).status_code == 200
    finally:
        app.extensions["quadrill"].close()


def test_a_token_that_may_only_push_is_told_so() -> None:
    app = _app(token=TOKEN)
    services = app.extensions["quadrill"]
    try:
        pusher = "a-token-that-may-only-push"
        services.registry.add_token(TokenRecord(hash_token(pusher), "push", "sensor"))
        answer = app.test_client().get("/", headers={"Accept": BROWSER, "Authorization": f"Bearer {pusher}"})
        assert answer.status_code == 403
        assert "the role push" in answer.text
    finally:
        services.close()


def test_without_tokens_the_login_page_leads_on(client: FlaskClient) -> None:
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


def test_files_of_the_page_are_packed_for_those_who_accept_it(client: FlaskClient) -> None:
    plain = client.get("/ui/static/base/dom.js")
    assert "Content-Encoding" not in plain.headers and "Accept-Encoding" in plain.headers["Vary"]
    packed = client.get("/ui/static/base/dom.js", headers={"Accept-Encoding": "gzip"})
    assert packed.headers["Content-Encoding"] == "gzip"
    assert packed.headers["Content-Type"] == plain.headers["Content-Type"]
    assert gzip.decompress(packed.data) == plain.data and len(packed.data) < len(plain.data) / 2
    assert packed.headers["ETag"] != plain.headers["ETag"]
    known = {"Accept-Encoding": "gzip", "If-None-Match": packed.headers["ETag"]}
    again = client.get("/ui/static/base/dom.js", headers=known)
    assert again.status_code == 304 and again.data == b""
    for path in ("../app/config.py", "base/no.js", "base/../../app/config.js"):
        assert client.get(f"/ui/static/{path}", headers={"Accept-Encoding": "gzip"}).status_code == 404
