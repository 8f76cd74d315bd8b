"""Makes pages of the site that no file of docs/ is: the README, HTTP operations, what documents link to.

The documents are read in the repository as well, so they link to source files by relative paths. Here each of
these becomes a page below `source/`, and the links lead there.
"""

from __future__ import annotations

import ast
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from quadrill.app.front.openapi import document
from quadrill.app.routes import all_routes

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"(\]\()([^)#\s]+)((?:#[^)\s]*)?\))")
LANGUAGES = {
    ".py": "python",
    ".yml": "yaml",
    ".yaml": "yaml",
    ".toml": "toml",
    ".js": "javascript",
    ".sh": "sh",
}
UNSEARCHED = "---\nsearch:\n  exclude: true\n---\n"


def _no_page(services: Any, request: Any) -> Any:
    """Stand for the page where only the table of routes is of interest."""
    raise NotImplementedError


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made."""
    made = {"index.md": (ROOT / "README.md").read_text("utf-8"), "reference/http.md": http_operations()}
    waiting = [("README.md", made["index.md"])]
    waiting += [(f"docs/{each.src_uri}", each.content_string) for each in files.documentation_pages()]
    while waiting:
        path, text = waiting.pop()
        for target in outside(path, text):
            uri = page_of(target)
            if uri not in made:
                made[uri] = source_page(ROOT / target)
                if target.endswith(".md"):
                    waiting.append((target, made[uri]))
    for uri, text in made.items():
        files.append(File.generated(config, uri, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let links that leave docs/ lead to the pages made of their targets."""
    here = origin(page.file.src_uri)
    folder = posixpath.dirname(page.file.src_uri)

    def moved(match: re.Match[str]) -> str:
        target = target_of(here, match[2])
        if target is None:
            return match[0]
        inside = target.startswith("docs/")
        uri = target.removeprefix("docs/") if inside else page_of(target)
        return f"{match[1]}{posixpath.relpath(uri, folder or '.')}{match[3]}"

    return LINK.sub(moved, markdown)


def origin(uri: str) -> str:
    """The path in the repository of what a page is made of."""
    if uri == "index.md":
        return "README.md"
    return uri.removeprefix("source/") if uri.startswith("source/") else f"docs/{uri}"


def page_of(path: str) -> str:
    """The page that is made of a file or a folder outside docs/."""
    if path == "README.md":
        return "index.md"
    if (ROOT / path).is_dir():
        return f"source/{path}/index.md"
    return f"source/{path}" if path.endswith(".md") else f"source/{path}.md"


def target_of(path: str, link: str) -> str | None:
    """The path in the repository that a relative link of a file leads to, if there is something."""
    if "://" in link or link.startswith(("/", "mailto:")):
        return None
    target = posixpath.normpath(posixpath.join(posixpath.dirname(path), link))
    return target if (ROOT / target).exists() else None


def outside(path: str, text: str) -> Iterator[str]:
    """What the text of a file links to outside docs/."""
    for match in LINK.finditer(text):
        target = target_of(path, match[2])
        if target is not None and not target.startswith("docs/"):
            yield target


def source_page(path: Path) -> str:
    """A page with the text of a file, or with the first lines of a folder's modules."""
    name = path.relative_to(ROOT).as_posix()
    if path.is_dir():
        rows = [f"| `{each.name}` | {first_line(each)} |" for each in sorted(path.glob("*.py"))]
        return (
            f"{UNSEARCHED}# {name}/\n\n" + "\n".join(["| module | what it is |", "|---|---|", *rows]) + "\n"
        )
    text = path.read_text("utf-8")
    if path.suffix == ".md":
        return text
    return f"{UNSEARCHED}# {name}\n\n````{LANGUAGES.get(path.suffix, 'text')}\n{text.rstrip()}\n````\n"


def first_line(module: Path) -> str:
    """What a module says of itself."""
    said = ast.get_docstring(ast.parse(module.read_text("utf-8"))) or ""
    return said.split("\n", 1)[0].replace("|", "\\|")


def http_operations() -> str:
    """The operations of the HTTP interface, as `/openapi.json` tells them."""
    lines = [
        "# HTTP, each operation",
        "",
        "Made of the table behind `/openapi.json`. Their meaning is in [http-api.md](../http-api.md).",
    ]
    for path, methods in document(all_routes(_no_page), "0", "")["paths"].items():
        for method, operation in methods.items():
            lines += ["", f"## `{method.upper()} {path}`", "", *operation_lines(operation)]
    return "\n".join(lines) + "\n"


def operation_lines(operation: dict[str, Any]) -> Iterator[str]:
    """What one operation does, takes and answers."""
    summary = operation["summary"]
    yield f"{summary[:1].upper()}{summary[1:]}. Role: {operation.get('x-role', 'none')}."
    given = [each for each in operation.get("parameters", ()) if "in" in each]
    if given:
        yield from ("", "| parameter | in | type | meaning |", "|---|---|---|---|")
        for each in given:
            kind = each.get("schema", {}).get("type", "string")
            yield f"| `{each['name']}` | {each['in']} | {kind} | {each.get('description', '')} |"
    taken = list(operation.get("requestBody", {}).get("content", ()))
    if taken:
        yield from ("", "Takes " + ", ".join(f"`{each}`" for each in taken) + ".")
    codes = {
        code: list(each.get("content", ()))
        for code, each in operation["responses"].items()
        if code != "default"
    }
    answers = [
        f"{code}" + (f" ({', '.join(f'`{each}`' for each in types)})" if types else "")
        for code, types in codes.items()
    ]
    yield from ("", f"Answers {'; '.join(answers)}; else a problem document.")
