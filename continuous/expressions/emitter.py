"""Code generation: collecting lines and globals of a Python function, and compiling the function."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from textwrap import dedent
from types import CodeType
from typing import Any

from quadrill.store.errors import UnsupportedError

_PART = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
_WHOLE_LINE = re.compile(r"( *)\$(\w+)")


class Emitter:
    """Collector of the lines and the globals of one generated function."""

    def __init__(self, names: Mapping[str, Any], *, commented: bool = False) -> None:
        """``commented`` allows comments in lines, provided that no string contains ``"# "``.

        Comments in generated code are removed before compilation, so functions that differ only in constants
        share their code object.
        """
        self._commented = commented
        self.lines: list[str] = []
        self.depth = 0
        self.names: dict[str, Any] = dict(names)
        self._count = 0
        self._objects: dict[int, str] = {}

    def line(self, *texts: str) -> None:
        """Add lines to the generated function at the current depth."""
        self.lines += ["    " * self.depth + text for text in texts]

    @contextmanager
    def apart(self) -> Iterator[list[str]]:
        """Collect generated lines in a separate list, starting at depth 0, for insertion into a template."""
        lines, depth = self.lines, self.depth
        self.lines, self.depth = [], 0
        try:
            yield self.lines
        finally:
            self.lines, self.depth = lines, depth

    def fresh(self, stem: str = "v") -> str:
        """Return an unused name for a local of the generated function."""
        self._count += 1
        return f"{stem}{self._count}"

    def name_of(self, thing: Any, stem: str = "c") -> str:
        """Return the name of the generated code's global that holds an object; add a missing global."""
        known = self._objects.get(id(thing))
        if known is None:
            known = f"{stem}_{len(self._objects)}"
            self._objects[id(thing)] = known
            self.names[known] = thing
        return known

    def build(self, head: str, name: str) -> Any:
        """Execute ``head`` followed by the generated lines, and return the object called ``name``."""
        namespace, lines = dict(self.names), self.lines
        if self._commented:
            lines = [line.partition("# ")[0].rstrip() for line in lines]
        try:
            exec(_compiled("\n".join([head, *lines]) + "\n", name), namespace)
        except (SyntaxError, RecursionError, MemoryError) as error:
            raise UnsupportedError("an expression nested this deep", hint=str(error)) from None
        return namespace[name]


@lru_cache(maxsize=512)
def _compiled(source: str, name: str) -> CodeType:
    """Compile the source text of a generated function, with a cache.

    Constants are globals of generated functions, so queries that differ in constants share a source text.
    """
    return compile(source, f"<plan {name}>", "exec")


def fill(template: str, **parts: object) -> str:
    r"""Insert parts into a code template and return the lines; a ``$`` inside a part is not replaced.

    A part of a code template that is alone on its line may have several lines or none: an empty part leaves
    no line.

    >>> print(fill('''
    ...     for row in $rows:
    ...         $body
    ... ''', rows="found", body="a = row[0]\nb = row[1]"))
    for row in found:
        a = row[0]
        b = row[1]
    """
    lines: list[str] = []
    for text, part in _lines_of(template):
        if not part:
            lines.append(text % parts)
        elif block := str(parts[part]).strip("\n"):
            lines.append(text + block.replace("\n", "\n" + text))
    return "\n".join(lines)


@lru_cache(maxsize=512)
def _lines_of(template: str) -> list[tuple[str, str]]:
    """Parse a code template into pairs of a text and a part's name, one pair for each line.

    For a template line that is just a part, the text is the indentation. For other template lines, the text
    is a ``%`` format and the part's name is empty.
    """
    found = []
    for line in dedent(template).strip("\n").split("\n"):
        whole = _WHOLE_LINE.fullmatch(line)
        text = _PART.sub(lambda part: f"%({part[1] or part[2]})s", line.replace("%", "%%"))
        found.append((text, "") if whole is None else (whole[1], whole[2]))
    return found


def block(parts: Iterable[str]) -> str:
    """Join generated parts by line breaks, without the empty parts."""
    return "\n".join(filter(None, parts))
