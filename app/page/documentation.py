"""Documentation in the web page: the Markdown files of docs/, converted to HTML.

Quadrill's wheel contains a copy of docs/. In the page's documentation, a link to a file outside docs/, such
as a source file, becomes plain text.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from markdown_it import MarkdownIt
from markdown_it.token import Token

FOLDER = Path(__file__).parents[2] / "docs"
"""The folder docs/ of the checkout, or its copy in the installed package."""
GROUPS = {
    "": "Guides and reference",
    "concepts": "Concepts",
    "cookbook": "Cookbook",
    "releases": "Releases",
    "decisions": "Decisions",
}
"""Folders below docs/ and their titles, in the order of the table of contents."""


class HelpPage(NamedTuple):
    """One page of the documentation in the web page.

    Attributes:
        path: the path of the documentation's Markdown file, relative to docs/.
        title: the first heading of the file.
        html: the content as HTML, without the frame of the web page.
    """

    path: str
    title: str
    html: str


class ContentsGroup(NamedTuple):
    """The documentation pages of one folder: the group's title, and path and title of each page."""

    title: str
    pages: list[tuple[str, str]]


def contents() -> list[ContentsGroup]:
    """List the documentation pages by folder; empty if the documentation is not installed."""
    groups = []
    for folder, title in GROUPS.items():
        paths = [path.relative_to(FOLDER).as_posix() for path in (FOLDER / folder).glob("*.md")]
        pages = sorted(((path, _title(path)) for path in paths), key=lambda page: page[1].lower())
        groups.append(ContentsGroup(title, pages))
    return [group for group in groups if group.pages]


def help_file(path: str) -> Path | None:
    """Return the documentation file at a path below docs/; None if there is no such file."""
    if not re.fullmatch(r"(?:\w[\w-]*/)?\w[\w.-]*\.(?:md|png|svg)|concepts/pictures/[\w-]+\.svg", path):
        return None
    file = FOLDER / path
    return file if file.is_file() else None


@lru_cache(maxsize=32)
def help_page(path: str) -> HelpPage | None:
    """Return a documentation page as HTML; None if there is no such page."""
    file = help_file(path)
    if file is None or file.suffix != ".md":
        return None
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = parser.parse(file.read_text("utf-8"))
    _give_ids(tokens)
    for token in tokens:
        if token.type == "table_open":
            token.attrSet("tabindex", "0")  # a tab index lets the keyboard scroll a wide table
        if token.attrGet("style"):
            # The Content-Security-Policy of the web page forbids inline styles.
            token.attrs = {"class": "num"} if "right" in str(token.attrs.pop("style")) else {}
        if token.children:
            token.children = list(_followed(token.children, posixpath.dirname(path)))
    return HelpPage(path, _title(path), parser.renderer.render(tokens, parser.options, {}))


def _title(path: str) -> str:
    with (FOLDER / path).open(encoding="utf-8") as file:
        return file.readline().lstrip("# ").strip()


def _give_ids(tokens: list[Token]) -> None:
    """Set the id of each heading by GitHub's rule, because links in the documentation use these ids."""
    used: dict[str, int] = {}
    for opening, heading in zip(tokens, tokens[1:], strict=False):
        if opening.type == "heading_open":
            slug = re.sub(r"[^\w\- ]", "", heading.content.strip().lower()).replace(" ", "-")
            count = used[slug] = used.get(slug, -1) + 1
            opening.attrSet("id", f"{slug}-{count}" if count else slug)


def _followed(children: list[Token], folder: str) -> Iterator[Token]:
    """Yield the Markdown tokens of a line without links to files outside docs/; links do not nest."""
    dropped = False
    for token in children:
        if token.type == "link_open":
            dropped = not _leads(str(token.attrGet("href")), folder)
        if not (dropped and token.type in ("link_open", "link_close")):
            yield token


def _leads(link: str, folder: str) -> bool:
    """Return True for a link to another server, within the page, or to a file of the documentation."""
    address = link.partition("#")[0]
    if not address or "://" in address:
        return True
    return help_file(posixpath.normpath(posixpath.join(folder, address))) is not None
