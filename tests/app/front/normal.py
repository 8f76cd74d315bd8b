"""Answers as text, without what differs from run to run or may change without breaking a client."""

from __future__ import annotations

import hashlib
import json
import re
from importlib.metadata import version

from .wire import Answer

USUAL = ("date", "server: Quadrill", "x-content-type-options: nosniff")
"""Header lines that an answer has unless it is recorded as being without them."""
LONGEST_BODY = 300
"""Characters of the longest body that is kept as text; of longer ones the names of their members are kept."""
_UNORDERED = frozenset({"vary", "allow", "access-control-allow-methods", "access-control-expose-headers"})
_VARYING = (
    (re.compile(r"\b1[6-9]\d{8}\.\d+\b"), "SECONDS"),
    (re.compile(r"\b1[6-9]\d{11}(?:\d{3})?\b"), "NOW"),
    (re.compile(r"\b20[2-9]\d-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)?"), "NOW"),
    (re.compile(r"(?<![0-9a-f])(?:[0-9a-f]{16}|[0-9a-f]{32})(?![0-9a-f])"), "ID"),
    (re.compile(r"\w{3}, \d\d \w{3} 20[2-9]\d \d\d:\d\d:\d\d GMT"), "NOW"),
    (re.compile(r"(?<=wait )\d+(?= seconds?)"), "SOME"),
    # Sources and sinks run at their own pace.
    (re.compile(r'("state": )"(?:starting|running|waiting)"'), r'\1"ACTIVE"'),
    (re.compile(r'("error": )(?:null|"[^"]*")(?=, "rate")'), r"\1ERROR"),
    (re.compile(r'("(?:rate|\w+_per_second|lag|taken|position|last)": ?)(?:[\d.]+|null|NOW)'), r"\1FIGURE"),
    (re.compile(r"(quadrill_session=)[\w-]+"), r"\1SESSION"),
    (
        re.compile(r'("(?:seconds|microseconds|(?:silent|lag|age|elapsed|cost)_ms)": ?)[\d.]+'),
        r"\1FIGURE",
    ),
)
_HISTORY = re.compile(r": (?:\[.*?\]|null|\d+)")
"""Values of a history: they are of whole seconds, and which these are differs."""
_TITLE = re.compile(r"<title>.*?</title>", re.DOTALL)
# Their bodies have their own tests, and change with the documents or the build.
_NOT_COMPARED = re.compile(r"GET (?:/[\w/]*)?/(?:ui/static/\S+|openapi\.json|metrics|query|sparql|) ")


class Normaliser:
    """Replaces what belongs to one run: the server's address and the product's version."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._version = version("quadrill")

    def text(self, found: str) -> str:
        """A text without the address, times, random names and figures of this run."""
        found = found.replace(self._host, "$HOST").replace(f"quadrill/{self._version}", "quadrill/VERSION")
        found = found.replace(f'"version": "{self._version}"', '"version": "VERSION"')
        if found.startswith('{"every_ms"'):
            found = _HISTORY.sub(": HISTORY", found)
        for pattern, replacement in _VARYING:
            found = pattern.sub(replacement, found)
        return found

    def answer(self, request: str, found: Answer) -> dict[str, object]:
        """An answer as it is recorded."""
        plain = found.body.decode("utf-8", "backslashreplace")
        body = self.text(plain)
        page = "text/html" in found.header("content-type")
        compared = not (_NOT_COMPARED.match(request) and found.status == 200 and not page)
        whole = len(body) <= LONGEST_BODY and found.header("content-length") == str(len(found.body))
        exact = compared and not page and body == plain and whole and not found.header("content-encoding")
        headers = sorted(self._header(name.lower(), value, exact) for name, value in found.headers)
        missing = [f"without {line}" for line in USUAL if line not in headers and found.status >= 200]
        headers = missing + [line for line in headers if line not in USUAL]
        if not compared:
            headers = [line.split(":")[0] if line.startswith("etag:") else line for line in headers]
            body = ""
        elif page:
            title = _TITLE.search(body)
            body = title[0] if title else body
        elif len(body) > LONGEST_BODY:
            body = _outline(plain, body)
        lines: dict[str, object] = {"status": f"{found.version} {found.status}"}
        if headers:
            lines["headers"] = headers
        if body:
            lines["body"] = body
        if found.closed:
            lines["closed"] = True
        if found.notes:
            lines["notes"] = found.notes
        return lines

    def _header(self, name: str, value: str, exact: bool) -> str:
        if name in ("date", "last-modified", "expires", "retry-after") or (
            name == "content-length" and not exact
        ):
            return name
        if name in _UNORDERED:
            value = ", ".join(sorted(part.strip() for part in value.split(",")))
        return f"{name}: {self.text(value)}"


def _outline(plain: str, body: str) -> str:
    """The names of the members of a long JSON document, or length and digest of another long text."""
    try:
        return _members(json.loads(plain), 1)
    except ValueError:
        return f"{len(body)} characters, SHA-256 {hashlib.sha256(body.encode()).hexdigest()[:32]}"


def _members(value: object, depth: int) -> str:
    if isinstance(value, dict) and depth:
        return "{" + ", ".join(f"{name}{_members(each, depth - 1)}" for name, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + (_members(value[0], depth) if value else "") + "]"
    return ""
