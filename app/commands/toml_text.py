"""Writer of TOML documents with sections; the standard library can only read TOML."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from .arguments import OfflineError

_BARE = re.compile(r"[A-Za-z0-9_-]+\Z")


def write_toml(document: Mapping[str, Mapping[str, Any]]) -> str:
    """Format a document as TOML: a table per mapping in a section, a table per section for other values.

    Raises: OfflineError for a null value, which TOML does not have.
    """
    blocks = []
    for section, entries in document.items():
        plain = {name: value for name, value in entries.items() if not isinstance(value, dict)}
        if plain or not entries:
            blocks.append(_table(_key(section), plain, section))
        for name, members in entries.items():
            if isinstance(members, dict):
                blocks.append(_table(f"{_key(section)}.{_key(name)}", members, f"{section}.{name}"))
    return "\n".join(blocks)


def _table(header: str, members: Mapping[str, Any], place: str) -> str:
    lines = [f"{_key(name)} = {_value(value, place, block=True)}" for name, value in members.items()]
    return "\n".join([f"[{header}]", *lines, ""])


def _key(name: str) -> str:
    return name if _BARE.match(name) else _text(name)


def _value(value: Any, place: str, *, block: bool = False) -> str:
    if value is None:
        raise OfflineError(f"{place} has null, which TOML does not have", hint="Take --format yaml")
    if isinstance(value, str):
        return _block(value) if block and "\n" in value else _text(value)
    if isinstance(value, dict):
        members = [f"{_key(name)} = {_value(each, place)}" for name, each in value.items()]
        return f"{{ {', '.join(members)} }}" if members else "{}"
    if isinstance(value, list):
        if block and any(isinstance(each, str) and "\n" in each for each in value):
            return "\n".join(["[", *(f"{_value(each, place, block=True)}," for each in value), "]"])
        return f"[{', '.join(_value(each, place) for each in value)}]"
    return json.dumps(value)


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")


def _block(value: str) -> str:
    """Format a text with several lines as a multi-line TOML string.

    A TOML parser drops the line break right after the opening quotes.
    """
    *lines, last = [_text(line)[1:-1] for line in value.split("\n")]
    # In a multi-line TOML string, quotes need no escape on lines without adjacent quotes, except on the last
    # line before the closing quotes.
    lines = [line if '\\"\\"' in line else line.replace('\\"', '"') for line in lines]
    return '"""\n' + "\n".join([*lines, last]) + '"""'
