"""Relative IRI references, RFC 3986 section 5.2 (`urllib` drops empty fragments and unknown schemes)."""

from __future__ import annotations

import re

_PARTS = re.compile(
    r"(?:([A-Za-z][A-Za-z0-9+.-]*):)?(?://([^/?#]*))?([^?#]*)(?:\?([^#]*))?(?:#(.*))?", re.DOTALL
)


def resolve(base: str, reference: str) -> str:
    """The IRI that a reference means against a base.

    >>> resolve("http://example.org/a/b", "#c"), resolve("http://example.org/a/b", "../d?e")
    ('http://example.org/a/b#c', 'http://example.org/d?e')
    """
    scheme, authority, path, query, fragment = _split(reference)
    if scheme is not None:
        return reference
    base_scheme, base_authority, base_path, base_query, _ = _split(base)
    if authority is None:
        authority = base_authority
        if not path:
            path = base_path
            query = base_query if query is None else query
        elif path.startswith("/"):
            path = _without_dots(path)
        else:
            path = _without_dots(_merged(base_authority, base_path, path))
    else:
        path = _without_dots(path)
    return _join(base_scheme, authority, path, query, fragment)


def _split(iri: str) -> tuple[str | None, str | None, str, str | None, str | None]:
    found = _PARTS.fullmatch(iri)
    assert found is not None  # every part of the pattern may be empty
    scheme, authority, path, query, fragment = found.groups()
    return scheme, authority, path, query, fragment


def _merged(authority: str | None, base_path: str, path: str) -> str:
    if authority is not None and not base_path:
        return "/" + path
    return base_path[: base_path.rfind("/") + 1] + path


def _without_dots(path: str) -> str:
    """Section 5.2.4."""
    if "." not in path:
        return path
    kept: list[str] = []
    segments = path.split("/")
    for place, segment in enumerate(segments):
        last = place == len(segments) - 1
        if segment == "..":
            if len(kept) > 1 or (kept and kept[0]):
                kept.pop()
        elif segment != ".":
            kept.append(segment)
            continue
        if last:
            kept.append("")
    return "/".join(kept)


def _join(
    scheme: str | None, authority: str | None, path: str, query: str | None, fragment: str | None
) -> str:
    text = "" if scheme is None else f"{scheme}:"
    if authority is not None:
        text += f"//{authority}"
    text += path
    if query is not None:
        text += f"?{query}"
    return text if fragment is None else f"{text}#{fragment}"
