"""The documentation in the page: every file of docs/, with links that lead somewhere."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import pytest

from quadrill.app.page.documentation import FOLDER, contents, help_file, help_page
from tests.app.conftest import Start
from tests.test_docs import anchors

DOCS = Path(__file__).parents[3] / "docs"
PATHS = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))
TOKEN = "a-token-of-this-test-only"


def test_the_contents_list_every_page_once() -> None:
    """Tests may run against an installed package, whose copy of docs/ has to be that of this checkout."""
    assert [
        path for path in PATHS if (FOLDER / path).read_text("utf-8") != (DOCS / path).read_text("utf-8")
    ] == []
    assert sorted(path for group in contents() for path, _ in group.pages) == PATHS
    assert dict(next(iter(contents())).pages)["settings.md"] == "Settings"


def test_links_of_all_pages_lead_to_files_and_headings() -> None:
    dead = []
    for path in PATHS:
        found = help_page(path)
        assert found is not None
        assert anchors((DOCS / path).read_text("utf-8")) <= set(re.findall(r'id="([^"]*)"', found.html))
        for link in re.findall(r'(?:href|src)="([^"]*)"', found.html):
            address, _, anchor = unescape(link).partition("#")
            if "://" in address:
                continue
            target = (DOCS / path).parent / address if address else DOCS / path
            if not target.is_file() or (anchor and anchor not in anchors(target.read_text("utf-8"))):
                dead.append(f"{path}: {link}")
    assert dead == []


def test_a_link_to_a_source_file_becomes_its_text() -> None:
    found = help_page("operations.md")
    assert found is not None
    assert "docker/quadrill.service" in found.html and 'docker/quadrill.service"' not in found.html


def test_nothing_of_a_page_needs_an_exception_of_the_policy() -> None:
    for path in PATHS:
        found = help_page(path)
        assert found is not None and not re.search(r"<[^>]*\s(?:style|on\w+)=|<script", found.html), path


@pytest.mark.parametrize(
    "path", ["", ".", "..", "../pyproject.toml", "a/../../x.md", "site/hooks.py", "none.md", "/etc/passwd"]
)
def test_only_files_of_the_documentation_are_found(path: str) -> None:
    assert help_file(path) is None


def test_the_server_shows_pages_and_pictures(start_server: Start) -> None:
    client = start_server().client
    shown = client.get("/ui/docs")
    assert shown.status_code == 200 and '<a href="/ui/docs/settings.md">Settings</a>' in shown.text
    page = client.get("/ui/docs/concepts/time.md")
    assert page.status_code == 200 and "<title>Time" in page.text
    picture = client.get("/ui/docs/concepts/pictures/time.svg")
    assert (picture.status_code, picture.headers["content-type"]) == (200, "image/svg+xml; charset=utf-8")
    assert client.get("/ui/docs/page.png").headers["content-type"] == "image/png"
    assert client.get("/ui/docs/none.md").status_code == 404


def test_the_documentation_asks_for_a_token_as_other_pages_do(start_server: Start) -> None:
    client = start_server(token=TOKEN).client
    for path in ("/ui/docs", "/ui/docs/settings.md"):
        assert client.get(path, headers={"Authorization": ""}, follow_redirects=False).status_code == 302
