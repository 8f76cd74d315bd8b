"""Splitting of RDF Messages in YAML-LD: each document of a YAML stream becomes a JSON-LD text.

Source: RDF Messages, section "YAML-LD"; plain scalars mean what YAML's core schema says (YAML 1.2, section
10.3). The events of the YAML parser are converted one by one, so that the conversion does not recurse and
does not expand aliases.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

import orjson

from quadrill.store.errors import InputError, LimitError, MediaTypeError, RdfSyntaxError

from .messages import MessageText

_MOST = 4 << 20
"""Maximum number of characters of a body, because parsing YAML is fifty times slower than parsing JSON."""
_DIRECTIVE = re.compile(r"^%(?!YAML 1)", re.MULTILINE)
_NULL = re.compile(r"(?:null|Null|NULL|~|)\Z")
_TRUTH = re.compile(r"(?:true|True|TRUE|(false|False|FALSE))\Z")
_INTEGER = re.compile(r"(?:[-+]?[0-9]{1,1000}|0o[0-7]{1,1000}|0x[0-9a-fA-F]{1,1000})\Z")
_NUMBER = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z")
_TEXT = ("!", "tag:yaml.org,2002:str")


def split_yaml_messages(text: str, most: int = _MOST, deepest: int = 100) -> list[MessageText]:
    """Cut a stream of YAML documents into messages; an empty document is an empty message.

    Raises:
        MediaTypeError: PyYAML is not installed.
        RdfSyntaxError: the text is not YAML, or has aliases, tags or values that JSON cannot express.
        InputError: the text has a directive other than ``%YAML``.
        LimitError: the text has more characters than ``most``, or nests deeper than ``deepest``.
    """
    try:
        import yaml
    except ImportError:
        raise MediaTypeError(
            "YAML-LD needs PyYAML, which is not installed", hint="pip install 'quadrill[yaml]'"
        ) from None
    if len(text) > most:
        raise LimitError(f"a push of YAML-LD may have {most:,} characters", code="body-too-large")
    if _DIRECTIVE.search(text):  # thousands of directives take the YAML parser minutes
        raise InputError("directives of YAML other than %YAML are not read", hint="Write tags in full.")
    try:
        return _documents(yaml, getattr(yaml, "CBaseLoader", yaml.BaseLoader), text, deepest)
    except yaml.MarkedYAMLError as error:
        raise _fault(error.problem, error.problem_mark) from None
    except yaml.YAMLError as error:
        raise RdfSyntaxError(f"YAML-LD: {error}") from None


def _documents(yaml: Any, loader: Any, text: str, deepest: int) -> list[MessageText]:
    messages: list[MessageText] = []
    written: list[str] = []
    open_: list[_OpenCollection] = []
    line = 1
    for event in yaml.parse(text, Loader=loader):
        if isinstance(event, yaml.DocumentStartEvent):
            line = event.start_mark.line + 1
            written.clear()
        elif isinstance(event, yaml.DocumentEndEvent):
            document = "".join(written)
            document = "{}" if document == "null" else document
            messages.append(MessageText(document, line, len(document)))
        elif isinstance(event, yaml.AliasEvent):
            raise _fault("aliases are not read", event.start_mark)
        elif isinstance(event, yaml.CollectionEndEvent):
            written.append(open_.pop().end)
        elif isinstance(event, yaml.NodeEvent):
            before, names = open_[-1].next() if open_ else ("", False)
            written.append(before)
            if isinstance(event, yaml.ScalarEvent):
                written.append(_scalar(event, names))
            elif names:
                raise _fault("a name is not a text", event.start_mark)
            # The YAML parser takes time proportional to the square of the nesting depth.
            elif len(open_) >= deepest:
                at = event.start_mark.line + 1
                message = f"nesting at line {at} is deeper than {deepest}"
                raise LimitError(message, code="nesting-too-deep", limit=deepest, line=at)
            else:
                open_.append(_OpenCollection("]" if isinstance(event, yaml.SequenceStartEvent) else "}"))
                written.append("[" if open_[-1].end == "]" else "{")
    return messages


@dataclass(slots=True)
class _OpenCollection:
    """A JSON list or object that is being written, with the character that ends it."""

    end: str
    members: int = 0

    def next(self) -> tuple[str, bool]:
        """Return the JSON separator before the next value, and whether the next value is a member name."""
        self.members += 1
        names = self.end == "}" and self.members % 2 == 1
        if self.end == "}" and not names:
            return ":", False
        return "," if self.members > 1 else "", names


def _scalar(event: Any, names: bool) -> str:
    """Return a YAML scalar as JSON."""
    value: str = event.value
    if not event.implicit[0] and event.tag not in (None, *_TEXT):
        raise _fault(f"the tag {event.tag} is not read", event.start_mark)
    if names or not event.implicit[0]:
        return orjson.dumps(value).decode()
    if _NULL.match(value):
        return "null"
    truth = _TRUTH.match(value)
    if truth is not None:
        return "false" if truth[1] else "true"
    if _INTEGER.match(value):
        return str(int(value, 0 if value[:2] in ("0o", "0x") else 10))
    if _NUMBER.match(value) and math.isfinite(number := float(value)):
        return repr(number)
    return orjson.dumps(value).decode()


def _fault(message: str, mark: Any) -> RdfSyntaxError:
    line, column = mark.line + 1, mark.column + 1
    return RdfSyntaxError(f"line {line}, column {column}: {message}", line=line, column=column)
