"""SPARQL clients of JavaScript that `make clients` installs: YASGUI in a browser, Comunica in Node."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest

from .pages.browser import NEEDS_BROWSER, Page, chromium
from .pages.conftest import served, update

CLIENTS = Path(os.environ.get("TEST_QUADRILL_CLIENTS", Path.home() / ".cache" / "quadrill" / "clients"))
COMUNICA = CLIENTS / "node_modules" / "@comunica" / "query-sparql" / "bin" / "query.js"
YASGUI = CLIENTS / "node_modules" / "@triply" / "yasgui" / "build"
DATA = 'PREFIX : <http://e/> INSERT DATA { :a :p 1, "zwei"@de . :c :p "<b>&" . GRAPH :g { :b :p 2 } }'
PREFIX = "PREFIX : <http://e/>\n"
PAGE = """<!doctype html><meta charset="utf-8"><link rel="icon" href="data:,">
<link rel="stylesheet" href="yasgui.min.css"><div id="yasgui"></div>
<script src="yasgui.min.js"></script><script>
window.yasgui = new Yasgui(document.getElementById("yasgui"), {
  persistenceId: null, requestConfig: { endpoint: ENDPOINT }, copyEndpointOnNewTab: false });
</script>"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """A folder and the address of a web server of it, from which the page of another party comes."""
    folder = tmp_path_factory.mktemp("site")

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield folder, f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture(scope="module")
def base(site: tuple[Path, str]) -> Iterator[str]:
    """A server with some quads that pages of the site may ask."""
    with served(cors_origins=[site[1]]) as url, httpx.Client(base_url=url) as client:
        update(client, DATA)
        yield url


def comunica(source: str, text: str, media_type: str) -> str:
    """What Comunica's command prints."""
    command = ["node", str(COMUNICA), source, text, "-t", media_type]
    environment = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.process
@pytest.mark.skipif(shutil.which("node") is None or not COMUNICA.exists(), reason="no Comunica: make clients")
def test_comunica_reads_and_writes(base: str) -> None:
    """The endpoint is told to be one, or found to be one by its service description."""
    text = PREFIX + "SELECT ?s ?o { ?s :p ?o } ORDER BY ?s STR(?o)"
    for source in (f"sparql@{base}/query", f"{base}/sparql"):
        found = json.loads(comunica(source, text, "application/sparql-results+json"))["results"]["bindings"]
        assert [(row["s"]["value"][-1], row["o"]["value"]) for row in found] == [
            ("a", "1"), ("a", "zwei"), ("c", "<b>&"),
        ]  # fmt: skip
        assert found[1]["o"]["xml:lang"] == "de"
    graph = comunica(
        f"sparql@{base}/query",
        PREFIX + "CONSTRUCT { ?s :q ?o } { GRAPH :g { ?s :p ?o } }",
        "application/n-triples",
    )
    integer = "http://www.w3.org/2001/XMLSchema#integer"
    assert graph.strip() == f'<http://e/b> <http://e/q> "2"^^<{integer}> .'
    comunica(f"sparql@{base}/sparql", PREFIX + "INSERT DATA { :new :p 3 }", "simple")
    asked = httpx.get(f"{base}/query", params={"query": "ASK { <http://e/new> ?p 3 }"})
    assert asked.json()["boolean"] is True


@pytest.mark.browser
@NEEDS_BROWSER[1]
@pytest.mark.skipif(not YASGUI.exists(), reason="no YASGUI: make clients")
def test_yasgui_asks_from_another_site(base: str, site: tuple[Path, str], tmp_path: Path) -> None:
    folder, address = site
    for name in ("yasgui.min.js", "yasgui.min.css"):
        shutil.copy(YASGUI / name, folder)
    (folder / "index.html").write_text(PAGE.replace("ENDPOINT", json.dumps(f"{base}/query")))
    with chromium(tmp_path / "profile") as driver:
        page = Page(driver, address)
        page.open("/index.html")
        page.until(lambda: page.all(".CodeMirror"), "the editor")
        for text, part in (
            ("SELECT ?s ?o { ?s :p ?o } ORDER BY ?s ?o", "zwei"),
            ("CONSTRUCT { ?s :q ?o } { GRAPH :g { ?s :p ?o } }", ":b"),
            ("ASK { :a :p 1 }", "True"),
            ("SELECT ?s { ?s :p }", "line 2, column"),
        ):
            driver.execute_script(
                "const tab = window.yasgui.getTab();"
                "tab.setQuery(arguments[0]); tab.query().catch(() => null)",
                PREFIX + text,
            )
            page.until_text(".yasr", part)
