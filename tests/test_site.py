"""The site of the documents is built without a warning, and every link in it leads somewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html import unescape
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit

import pytest

from tests.app.pages.browser import CHROMEDRIVER, CHROMIUM, Page, chromium

pytest.importorskip("mkdocs", reason="needs the docs extra")

ROOT = Path(__file__).parent.parent
LINK = re.compile(r'(?:href|src)="([^"]*)"')
TARGET = re.compile(r'\b(?:id|name)="([^"]*)"')


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert built.returncode == 0, built.stderr
    return folder


def test_every_link_and_anchor_of_the_site_is_there(site: Path) -> None:
    pages = {path: path.read_text("utf-8") for path in site.rglob("*.html") if path.name != "404.html"}
    assert site / "index.html" in pages
    anchors = {path: {unescape(name) for name in TARGET.findall(text)} for path, text in pages.items()}
    dead = []
    for path, text in pages.items():
        for link in LINK.findall(text):
            address, anchor = urldefrag(unescape(link))
            if "://" in address or address.startswith(("mailto:", "data:")):
                continue
            target = (path.parent / unquote(address)).resolve() if address else path
            target = target / "index.html" if target.is_dir() else target
            if not target.is_file() or (
                anchor and target in anchors and unquote(anchor) not in anchors[target]
            ):
                dead.append(f"{path.relative_to(site)}: {link}")
    assert dead == []


def test_the_site_fetches_nothing_from_elsewhere(site: Path) -> None:
    fetched = re.compile(r'<(?:script|img|iframe|link[^>]*stylesheet)[^>]*(?:src|href)="(?:https?:)?//[^"]*"')
    assert [path.name for path in site.rglob("*.html") if fetched.search(path.read_text("utf-8"))] == []


@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None or CHROMEDRIVER is None, reason="no chromium or no chromedriver")
def test_the_site_is_searched_in_a_local_folder_without_a_server(site: Path, tmp_path: Path) -> None:
    with chromium(tmp_path / "profile") as driver:
        page = Page(driver, site.as_uri())
        page.open("/index.html")
        page.driver.execute_script("document.querySelector('.md-search__input').focus()")
        page.one(".md-search__input").send_keys("watermark")
        page.until(lambda: page.all(".md-search-result__item a"), "results")
        (address, _) = urldefrag(str(page.one(".md-search-result__item a").get_attribute("href")))
        assert address.startswith("file://") and Path(unquote(urlsplit(address).path)).is_file()
        assert page.complaints() == []


def test_the_reference_of_http_has_every_operation(site: Path) -> None:
    from quadrill.app.front.openapi import document
    from quadrill.app.routes import all_routes
    from tests.app.routes import no_page

    page = unescape((site / "reference" / "http.html").read_text("utf-8"))
    paths = document(all_routes(no_page), "0", "")["paths"]
    assert [f"{m.upper()} {p}" for p in paths for m in paths[p] if f"{m.upper()} {p}" not in page] == []
