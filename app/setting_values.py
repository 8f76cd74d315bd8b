"""Class `Setting`, and functions that parse and validate the value of a setting."""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from quadrill.store.errors import ReportedError

SERVER_VARIABLE = "QUADRILL_SERVER"
"""Environment variable with the server's address for client commands, which is no setting of a server."""
OTHER_VARIABLES = re.compile(
    r"QUADRILL_(SERVER|(SOURCE|SINK)_.+_(SECRET|SEND|TOKEN|HEADERS|PASSWORD|OPTIONS|URL)_*)\Z"
)
"""Environment variables of commands: the server's address, and the secrets in files that `dump` writes."""
_LAST_PORT = 65535
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^/\s?#@,]+\Z|\*\Z")
_HTTP_URL = re.compile(
    r"https?://(?:[A-Za-z0-9._~%-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?"
    r"(?:/[A-Za-z0-9._~!$&'()*+,;=:@%-]+)*/?\Z",
    re.IGNORECASE,
)
_ABSOLUTE_IRI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\s<>\"{}|^`\\]*\Z")


class SettingsError(ReportedError):
    """Error that a setting is unknown or has an invalid value, which prevents the start of the server."""

    code = "settings"


@dataclass(frozen=True, slots=True)
class Setting:
    """Definition of one setting: name, type, default, unit and help text."""

    name: str
    type: type
    default: Any
    unit: str
    help: str


def parse(row: Setting, text: str, place: str) -> Any:
    """Parse the value of a setting from the text of an environment variable.

    Raises: SettingsError for an invalid value.
    """
    if row.type is bool:
        words = {
            "1": True,
            "true": True,
            "yes": True,
            "on": True,
            "0": False,
            "false": False,
            "no": False,
            "off": False,
        }
        if text.strip().lower() not in words:
            raise _misfit(row, text, place)
        return words[text.strip().lower()]
    if row.type is tuple:
        return _parse_list(row, text, place)
    if row.type is str:
        return convert(row, text, place)
    try:
        number: int | float = int(text) if row.type is int else float(text)
    except ValueError as error:
        raise _misfit(row, text, place) from error
    return convert(row, number, place)


def _parse_list(row: Setting, text: str, place: str) -> Any:
    """Parse a list of texts, separated by commas or written as JSON, ``["a", "b"]``."""
    if not text.lstrip().startswith("["):
        return convert(row, [part.strip() for part in text.split(",") if part.strip()], place)
    try:
        members = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SettingsError(
            f"setting {row.name} {place} begins like a JSON list but is not valid JSON: {text!r}",
            hint=f'Write ["a", "b"] or a,b for {row.name}.',
        ) from error
    return convert(row, members, place)


def convert(row: Setting, value: Any, place: str) -> Any:
    """Validate a setting's value that has a type, such as one from TOML, and return it as the setting's type.

    Raises: SettingsError for a value of a wrong type or range.
    """
    if (
        row.type is tuple
        and isinstance(value, (list, tuple))
        and all(isinstance(each, str) for each in value)
    ):
        wrong = [each for each in value if row.unit == "origins" and not _ORIGIN.match(each)]
        if wrong:
            form = "https://example.org, without a path, or be *"
            raise SettingsError(
                f"setting {row.name} {place} must name origins as {form}; {wrong[0]!r} is not one"
            )
        if row.unit == "networks":
            _check_networks(row, value, place)
        return tuple(value)
    if row.type is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if type(value) is not row.type or row.type is tuple:
        raise _misfit(row, value, place)
    if row.unit == "IRI" and not _ABSOLUTE_IRI.match(str(value)):
        raise SettingsError(f"setting {row.name} {place} must be an absolute IRI, it is {value!r}")
    if row.unit == "HTTP URL" and value and not _HTTP_URL.match(str(value)):
        form = "https://example.org or https://example.org/path, without ? and #"
        raise SettingsError(f"setting {row.name} {place} must be an address as {form}; it is {value!r}")
    if isinstance(value, (int, float)):
        fault = _out_of_range(row, value)
        if fault is not None:
            raise SettingsError(f"setting {row.name} {place} must {fault}, it is {value}")
    return value


def _check_networks(row: Setting, values: Sequence[str], place: str) -> None:
    for each in values:
        try:
            ipaddress.ip_network(each, strict=False)
        except ValueError as error:
            form = "addresses or networks such as 10.0.0.0/8"
            raise SettingsError(
                f"setting {row.name} {place} must list {form}; {each!r} is not one"
            ) from error


def _out_of_range(row: Setting, value: float) -> str | None:
    """Return the end of an error message after "must" for a setting out of range; None for a valid number."""
    if not 0 <= value < float("inf"):
        return "not be negative or infinite"
    if row.unit == "port" and value > _LAST_PORT:
        return f"be from 0 to {_LAST_PORT}"
    if row.unit == "threads" and value < 1:
        return "be at least 1"
    return None


def _misfit(row: Setting, value: Any, place: str) -> SettingsError:
    wanted = {
        bool: "true or false",
        tuple: "a list of texts",
        str: "a text",
        int: "a whole number",
        float: "a number",
    }
    return SettingsError(f"setting {row.name} {place} must be {wanted[row.type]}, it is {value!r}")
