"""The documentation in the page: the Markdown files of docs/, which the wheel holds as well, as HTML.

A link to a file that the wheel does not hold, such as a source file, becomes plain text.
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
"""docs/ of the checkout, or its copy in the installed package."""
GROUPS = {
    "": "Guides and reference",
    "concepts": "Concepts",
    "cookbook": "Cookbook",
    "releases": "Releases",
    "decisions": "Decisions",
}
"""Folders of the documentation in the order of its contents, and their titles."""


class HelpPage(NamedTuple):
    """One page of the documentation.

    Attributes:
        path: its file, below docs/.
        title: its first heading.
        html: the page without a frame.
    """

    path: str
    title: str
    html: str


class ContentsGroup(NamedTuple):
    """The pages of one folder: the title of the group, and path and title of each page."""

    title: str
    pages: list[tuple[str, str]]


def contents() -> list[ContentsGroup]:
    """List the pages by folder; empty where the documentation is not installed."""
    groups = []
    for folder, title in GROUPS.items():
        paths = [path.relative_to(FOLDER).as_posix() for path in (FOLDER / folder).glob("*.md")]
        pages = sorted(((path, _title(path)) for path in paths), key=lambda page: page[1].lower())
        groups.append(ContentsGroup(title, pages))
    return [group for group in groups if group.pages]


def help_file(path: str) -> Path | None:
    """Return the file of a path below docs/; None where there is none."""
    if not re.fullmatch(r"(?:\w[\w-]*/)?\w[\w.-]*\.(?:md|png|svg)|concepts/pictures/[\w-]+\.svg", path):
        return None
    file = FOLDER / path
    return file if file.is_file() else None


@lru_cache(maxsize=32)
def help_page(path: str) -> HelpPage | None:
    """Return a page as HTML; None where there is none."""
    file = help_file(path)
    if file is None or file.suffix != ".md":
        return None
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = parser.parse(file.read_text("utf-8"))
    _give_ids(tokens)
    for token in tokens:
        if token.type == "table_open":
            token.attrSet("tabindex", "0")  # a wide one is scrolled, also with the keyboard
        if token.attrGet("style"):
            # The policy of the page allows no styles of elements.
            token.attrs = {"class": "num"} if "right" in str(token.attrs.pop("style")) else {}
        if token.children:
            token.children = list(_followed(token.children, posixpath.dirname(path)))
    return HelpPage(path, _title(path), parser.renderer.render(tokens, parser.options, {}))


def _title(path: str) -> str:
    with (FOLDER / path).open(encoding="utf-8") as file:
        return file.readline().lstrip("# ").strip()


def _give_ids(tokens: list[Token]) -> None:
    """Give headings the ids that links use, as code hosts make them."""
    used: dict[str, int] = {}
    for opening, heading in zip(tokens, tokens[1:], strict=False):
        if opening.type == "heading_open":
            slug = re.sub(r"[^\w\- ]", "", heading.content.strip().lower()).replace(" ", "-")
            count = used[slug] = used.get(slug, -1) + 1
            opening.attrSet("id", f"{slug}-{count}" if count else slug)


def _followed(children: list[Token], folder: str) -> Iterator[Token]:
    """Yield the tokens of a line without links to files that are not here; links do not nest."""
    dropped = False
    for token in children:
        if token.type == "link_open":
            dropped = not _leads(str(token.attrGet("href")), folder)
        if not (dropped and token.type in ("link_open", "link_close")):
            yield token


def _leads(link: str, folder: str) -> bool:
    """True for a link to another server, into the same page, or to a file of the documentation."""
    address = link.partition("#")[0]
    if not address or "://" in address:
        return True
    return help_file(posixpath.normpath(posixpath.join(folder, address))) is not None
