"""Validation of query-string parameters, of names in paths, and of JSON bodies."""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterable
from functools import lru_cache
from typing import Any

from quadrill.store.documents.members import NAME

from .errors import HttpError
from .forms import fields_of

_MAX_KEPT_QUERY = 512
"""Maximum bytes of a query string whose parsed parameters are cached, because clients repeat requests."""


class Arguments:
    """The query-string parameters of a request; immutable, because requests share parsed parameters."""

    __slots__ = ("_values",)

    def __init__(self, fields: Iterable[tuple[str, str]] = ()) -> None:
        self._values: dict[str, list[str]] = {}
        for name, value in fields:
            self._values.setdefault(name, []).append(value)

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def __len__(self) -> int:
        return len(self._values)

    def get(self, name: str, default: str | None = None) -> str | None:
        """Return the first value of a query-string parameter, or ``default`` without the parameter."""
        values = self._values.get(name)
        return values[0] if values else default

    def all(self, name: str) -> list[str]:
        """Return every value of a query-string parameter, in order."""
        return self._values.get(name, [])

    def flag(self, name: str, default: bool = False) -> bool:
        """Return the value of a boolean query-string parameter; a parameter without a value is True.

        Raises: HttpError 400 when the parameter's value is not a boolean word.
        """
        value = self.get(name)
        if value is None:
            return default
        words = {"": True, "true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
        if value.lower() not in words:
            raise HttpError(
                400, f"the parameter {name} must be true or false, it is {value!r}", code="parameter"
            )
        return words[value.lower()]

    def check(self, known: Iterable[str] = (), *, several: Container[str] = ()) -> None:
        """Reject query-string parameters outside ``known``, and repeated parameters outside ``several``.

        Raises: HttpError 400.
        """
        for name, values in self._values.items():
            if len(values) > 1 and name not in several:
                raise HttpError(400, f"the parameter {name} is given {len(values)} times", code="parameter")
        if self._values:
            check_known(known, self._values)


def arguments_of(query: bytes) -> Arguments:
    """Parse the parameters of a URL's query string.

    Raises: HttpError 400 when the query string is not UTF-8 or has too many parameters.
    """
    if not query:
        return _NO_ARGUMENTS
    return _kept_arguments(query) if len(query) <= _MAX_KEPT_QUERY else _arguments(query)


def _arguments(query: bytes) -> Arguments:
    return Arguments(fields_of(query))


_NO_ARGUMENTS = Arguments()
_kept_arguments = lru_cache(maxsize=1024)(_arguments)


def whole_number(name: str, text: str) -> int:
    """Parse a parameter or header that must be a whole number of at least 0.

    Raises: HttpError 400.
    """
    if not re.fullmatch(r"[0-9]{1,18}", text.strip()):
        raise HttpError(400, f"{name} must be a whole number, it is {text!r}", code="parameter")
    return int(text)


def check_known(known: Iterable[str], given: Iterable[str]) -> None:
    """Reject unknown parameters of a request, because a misspelt parameter would be ignored silently.

    Raises: HttpError 400.
    """
    names = frozenset(known)
    unknown = sorted(name for name in given if name not in names)
    if unknown:
        raise HttpError(
            400,
            f"unknown parameter {unknown[0]}",
            code="parameter",
            hint=f"This resource takes {', '.join(sorted(names)) or 'none'}.",
        )


def check_name(name: str | None, what: str) -> str:
    """Return the name of a query, stream or other resource if it is valid in a path.

    Raises: HttpError 400 when the name in the path is missing or invalid.
    """
    if name is None or not NAME.match(name):
        raise HttpError(
            400,
            f"{what} {name!r} is not a name",
            code="name",
            hint="A name is a letter or digit and up to 127 letters, digits, dots, underscores, hyphens.",
        )
    return name


def json_object(text: str, what: str) -> dict[str, Any]:
    """Parse a JSON request body that must be an object.

    Raises: HttpError 400 for a body that is no JSON object, with line and column of a syntax error.
    """
    try:
        value = json.loads(text, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise HttpError(
            400, f"{what} is not JSON: {error.msg}", code="json-syntax", line=error.lineno, column=error.colno
        ) from error
    except RecursionError as error:
        raise HttpError(400, f"{what} is nested too deeply", code="json-syntax") from error
    except ValueError as error:
        raise HttpError(400, f"{what} is not JSON: {error}", code="json-syntax") from error
    if not isinstance(value, dict):
        raise HttpError(
            400, f"{what} must be a JSON object, it is {type(value).__name__}", code="json-syntax"
        )
    return value


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
