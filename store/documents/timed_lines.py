"""Parsing of JSON lines with statements and an event time; many lines in canonical form are read at once."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from operator import itemgetter

import orjson
from pyoxigraph import RdfFormat

from .statements import may_have_blank, read_statements
from .subject_columns import Statements, as_columns

_MEMBERS = itemgetter("at", "data")


def read_timed_lines(lines: Sequence[str]) -> tuple[list[int], list[Statements], list[bool]] | None:
    """Return times, statements and blank-node flags of lines ``{"at": integer, "data": N-Quads}``.

    Return None if a line has any other form, valid or invalid.
    """
    text = "\n".join(lines)
    # Each JSON line has one opening brace, at its start, so no object extends to the next line.
    if "[" in text or text[:1] != "{" or not text.count("\n{") + 1 == text.count("{") == len(lines):
        return None
    try:
        documents = orjson.loads(f"[{','.join(lines)}]")
        if set(map(type, documents)) != {dict} or set(map(len, documents)) != {2}:
            return None
        times, texts = map(list, zip(*map(_MEMBERS, documents), strict=True))
    except (ValueError, KeyError):
        return None
    if set(map(type, times)) != {int} or set(map(type, texts)) != {str}:
        return None
    text = "\n".join(texts)
    if text.count("\n") >= len(texts):
        texts = [text.rstrip("\n") for text in texts]
        text = "\n".join(texts)
    read = read_statements(text, RdfFormat.N_QUADS)
    if read is None:
        return None
    statements, some_blank = tuple(read[0]), read[1]
    blank = list(map(may_have_blank, texts)) if some_blank else [False] * len(texts)
    # Each line in the member ``data`` is one statement.
    if len(statements) == len(texts):
        return times, list(zip(statements, strict=True)), blank
    ends = accumulate([text.count("\n") + 1 for text in texts], initial=0)
    return times, [as_columns(statements[begin:end]) for begin, end in pairwise(ends)], blank
