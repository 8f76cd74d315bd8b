"""The pages of docs/ and the program agree: routes, keywords, codes, members, and links into pages."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

import pytest

from quadrill.app.routes import all_routes
from quadrill.continuous.language.registration import registration_members
from tests.app.routes import no_page

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
DOCUMENTS = sorted([ROOT / "README.md", *DOCS.rglob("*.md")])
CODE_FOLDERS = ("app", "continuous", "store")


def page(name: str) -> str:
    return (DOCS / name).read_text("utf-8")


# --- error codes -------------------------------------------------------------------------------------------


def codes_of(path: Path) -> set[str]:
    """The codes that a file gives to errors: class attributes, keywords, and tables by status."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        match node:
            case ast.ClassDef(bases=[_, *_]):
                found |= {
                    each.value.value
                    for each in node.body
                    if isinstance(each, ast.Assign)
                    and isinstance(each.value, ast.Constant)
                    and isinstance(each.value.value, str)
                    and [target.id for target in each.targets if isinstance(target, ast.Name)] == ["code"]
                }
            case ast.keyword(arg="code", value=ast.Constant(value=str(code))):
                found.add(code)
    return found


@functools.cache
def codes_in_program() -> set[str]:
    files = [path for folder in CODE_FOLDERS for path in (ROOT / folder).rglob("*.py")]
    # Those that app/errors.py gives to what is not an error of ours.
    return set().union(*map(codes_of, files)) | {"no-such-resource", "http", "internal"}


def test_every_error_code_is_explained_and_no_other() -> None:
    rows = re.findall(r"^\| (`.*?) \|", page("errors.md"), re.MULTILINE)
    documented = [code for row in rows for code in re.findall(r"`([a-z0-9-]+)`", row)]
    assert len(documented) == len(set(documented)), "a code is explained once"
    assert sorted(codes_in_program() - set(documented)) == []
    assert sorted(set(documented) - codes_in_program()) == []


# --- routes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path", sorted({each.path for each in all_routes(no_page) if each.summary and each.path != "/"})
)
def test_every_route_is_on_the_page_of_the_http_interface(path: str) -> None:
    shown = re.sub(r"\{\w+_id\}", "{id}", path.replace("/store/{path}", "/store/any/path"))
    pattern = re.escape(shown) + r"(?![\w/:{-])"
    if path in ("/", "/sparql"):
        pattern = re.escape(shown)
    text = page("http-api.md")
    if path.startswith("/health/"):
        text = text.replace("/health/*", path)
    assert re.search(pattern, text), f"{path} is not on docs/http-api.md"


# --- languages ---------------------------------------------------------------------------------------------


def keywords(name: str) -> set[str]:
    """The words of a grammar that a person writes."""
    text = (ROOT / "continuous" / "language" / f"{name}.lark").read_text("utf-8")
    found: set[str] = set()
    for word in re.findall(r"/(\(\?:)?([A-Z_|]+)\)?\(\?!\\w\)/i", text):
        found |= set(word[1].split("|"))
    return found


def test_every_keyword_that_sparql_does_not_have_is_on_the_page_of_the_languages() -> None:
    sparql = set(
        """A ALL AS ASC ASK AT BASE BIND BY CONSTRUCT COUNT SUM MIN MAX AVG SAMPLE DESC DESCRIBE DISTINCT
        EXISTS FILTER FROM GRAPH GROUP GROUP_CONCAT HAVING IN LIMIT MINUS NAMED NOT NOW OFFSET OPTIONAL ORDER
        PREFIX REDUCED SELECT SEPARATOR SERVICE SILENT UNDEF UNION VALUES VERSION WHERE TRUE FALSE""".split()
    )
    # Clauses of drafts, and ticks, that are refused by name.
    refused = {"ENTAILMENT", "REGIME", "UNDER", "TUPLE_DRIVEN", "BATCH_DRIVEN"}
    ours = set().union(*map(keywords, ("sparql", "cqels", "csparql", "rspql"))) - sparql - refused
    assert {"STREAM", "RANGE", "SLIDE", "WINDOW", "REGISTER", "LATENESS"} & ours
    text = page("language.md")
    missing = sorted(word for word in ours if not re.search(rf"\b{word}\b", text, re.IGNORECASE))
    assert missing == []


@pytest.mark.parametrize("name", sorted(registration_members()))
def test_every_member_of_a_registration_is_told_somewhere(name: str) -> None:
    texts = "".join(
        page(each) for each in ("http-api.md", "semantics.md", "language.md", "troubleshooting.md")
    )
    assert re.search(rf"[`\"]{name}\b", texts), f"the member {name} is on no page"


# --- links -------------------------------------------------------------------------------------------------

LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]*)#([^)\s]+)\)")


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings, as code hosts make them."""
    headings = re.findall(r"^#+ +(.*)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.MULTILINE)
    kept = [re.sub(r"[^\w\- ]", "", heading.strip().lower()) for heading in headings]
    return {heading.replace(" ", "-") for heading in kept}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_link_into_a_page_leads_to_a_heading(document: Path) -> None:
    dead = [
        f"{target}#{anchor}"
        for target, anchor in LINK.findall(document.read_text("utf-8"))
        if "://" not in target
        and anchor not in anchors((document.parent / target if target else document).read_text("utf-8"))
    ]
    assert dead == []


def test_every_page_is_reached_from_the_readme() -> None:
    seen: set[Path] = set()
    waiting = [ROOT / "README.md"]
    while waiting:
        document = waiting.pop()
        if document in seen or not document.is_file():
            continue
        seen.add(document)
        for target in re.findall(r"\]\(([^)#\s]+)", document.read_text("utf-8")):
            if "://" not in target and target.endswith(".md"):
                waiting.append((document.parent / target).resolve())
    pages = {path for path in DOCS.glob("*.md")}
    assert sorted(path.name for path in pages - seen) == []


def test_the_index_of_the_decisions_has_a_line_for_each() -> None:
    line = re.compile(r"^- \[(\d{4})\]\((\1-[a-z0-9-]+\.md)\) \S", re.MULTILINE)
    listed = line.findall(page("decisions/README.md"))
    there = sorted(path.name for path in (DOCS / "decisions").glob("0*.md"))
    assert sorted(name for _, name in listed) == there


def test_code_names_decisions_that_are_there() -> None:
    numbers = {path.name[:4] for path in (DOCS / "decisions").glob("0*.md")}
    dead = {
        f"{path.relative_to(ROOT)}: {name}"
        for folder in (*CODE_FOLDERS, "benchmarks", "tests", "docs")
        for ending in ("*.py", "*.lark", "*.md")
        for path in (ROOT / folder).rglob(ending)
        for name in re.findall(r"decisions/(\d{4}(?:-[a-z0-9-]+\.md)?)", path.read_text("utf-8"))
        if (name not in numbers if len(name) == 4 else not (DOCS / "decisions" / name).is_file())
    }
    assert sorted(dead) == []


def test_every_promise_names_a_test_that_is_there() -> None:
    promised = (ROOT / "docs" / "guarantees.md").read_text("utf-8").partition("## Not promised")[0]
    named = re.findall(r"`(tests/[\w./]+)`", promised)
    assert len(named) > 40
    assert [path for path in named if not (ROOT / path).exists()] == []
    for section in re.split(r"^## ", promised, flags=re.M)[1:]:
        if "*All checked by*" in section:
            continue
        for promise in re.split(r"^- ", section, flags=re.M)[1:]:
            exempt = promise.startswith(
                ("**Latency of durable pushes", "Rows inside one event", "**Not promised")
            )
            assert exempt or "hecked" in promise, promise[:80]
