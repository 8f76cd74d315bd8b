"""The declaration of a source or a sink: its members, each with a function that reads it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from quadrill.store.documents.members import MemberReader
from quadrill.store.errors import InputError

Form: TypeAlias = Literal["text", "number", "flag", "choice", "list", "object"]

HIDDEN = "***"
"""Text shown in place of a secret, such as a password, in the declaration of a connector."""
_SECRET_PARAMETER = re.compile(
    r"([?&;](?:[^=&;#]*[_.-])?"
    r"(?:(?:access|api|auth|sas)?[_-]?(?:token|key)|secret|password|passwd|pass|pwd"
    r"|sig|signature|credential|code|appid|bearer)=)[^&;#]*",
    re.IGNORECASE,
)
_QUERY_PART = re.compile(r"\?[^\s<>]*>")
_PLACE = ("kind", "url", "ca")
"""Members that determine the receiver of secrets; another certificate authority may mean another server."""


@dataclass(frozen=True, slots=True)
class ValueReader:
    """A `MemberReader` with a description of the form of its values, for the users who write declarations."""

    read: MemberReader
    form: Form
    choices: tuple[str, ...] = ()

    def __call__(self, value: Any, name: str) -> Any:
        """Return the value of a declaration member; raises InputError for an invalid value."""
        return self.read(value, name)


@dataclass(frozen=True, slots=True)
class DeclarationMember:
    """One member of the declarations of a kind of source or sink.

    Attributes:
        name: the member's name in a JSON declaration.
        read: converts the JSON value of the member into the value that a connector uses.
        default: the value of the member if a declaration omits it.
        required: True if a declaration cannot omit the member.
        secret: True if the member's value is stored but never shown.
        help: one sentence that explains the member to users.
    """

    name: str
    read: MemberReader | ValueReader
    help: str
    default: Any = None
    required: bool = False
    secret: bool = False

    def to_json(self) -> dict[str, Any]:
        """Describe the declaration member as JSON for the users who write declarations."""
        reading = self.read if isinstance(self.read, ValueReader) else ValueReader(self.read, "text")
        return {
            "name": self.name,
            "form": reading.form,
            "choices": list(reading.choices),
            "required": self.required,
            "secret": self.secret,
            "default": self.default,
            "help": self.help,
        }


def read_members(kind: str, members: Iterable[DeclarationMember], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a connector's declaration, with defaults; null counts as omitted.

    Raises:
        InputError: the declaration has an unknown member, an invalid value, or a missing member.
    """
    table = {each.name: each for each in members}
    unknown = sorted(name for name in given if name not in table)
    if unknown:
        raise InputError(
            f"{kind} has no member {unknown[0]!r}", code="member", hint=f"Members are {', '.join(table)}"
        )
    found = {}
    for name, member in table.items():
        value = given.get(name)
        if value is not None:
            found[name] = _read(member, value)
        elif member.required:
            raise InputError(f"{kind} needs the member {name}: {member.help}", code="member")
        else:
            found[name] = member.default
    return found


def _read(member: DeclarationMember, value: Any) -> Any:
    """Return the value of a declaration member; an error about a secret member does not show its value."""
    try:
        return member.read(value, member.name)
    except InputError as error:
        if not member.secret:
            raise
        message = error.message
        for each in (value, *(value if isinstance(value, list) else ())):
            message = message.replace(repr(each), HIDDEN)
        raise InputError(message, code=error.code, hint=error.hint) from None


def shown_members(members: Iterable[DeclarationMember], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return a connector's declaration as the client wrote it, with its secrets hidden."""
    secrets = {each.name for each in members if each.secret}
    shown = {name: HIDDEN if name in secrets else value for name, value in given.items() if value is not None}
    return shown | ({"url": shown_url(shown["url"])} if isinstance(shown.get("url"), str) else {})


def shown_url(url: str) -> str:
    """Return a URL in which `***` replaces the values of parameters that look like keys or tokens."""
    return _SECRET_PARAMETER.sub(rf"\g<1>{HIDDEN}", url)


def shown_message(message: str) -> str:
    """Return an error message without the query parts of its URLs, which may have keys of services."""
    return _QUERY_PART.sub("?…>", message)


def with_secrets(
    members: Iterable[DeclarationMember], given: Mapping[str, Any], kept: Mapping[str, Any]
) -> dict[str, Any]:
    """Return a declaration in which secrets given as `***` have their stored values.

    Raises:
        InputError: no secret is stored for a `***`, or the stored secret would be sent to another server.
    """
    secrets = {each.name for each in members if each.secret}
    hidden = [name for name, value in given.items() if name in secrets and value == HIDDEN]
    url, kept_url = given.get("url"), kept.get("url")
    if isinstance(url, str) and f"={HIDDEN}" in url and shown_url(url) == url:
        hidden.append("url")
        if isinstance(kept_url, str) and shown_url(kept_url) == url:
            given = {**given, "url": kept_url}
    missing = next((name for name in hidden if name not in kept), None)
    if missing is not None:
        raise InputError(
            f"{missing} is {HIDDEN}, which stands for a stored secret, but none is stored", code="member"
        )
    moved = next((name for name in _PLACE if given.get(name) != kept.get(name)), None)
    if hidden and moved is not None:
        raise InputError(
            f"{hidden[0]} is {HIDDEN}, but {moved} differs: a stored secret is sent only to the same server",
            code="member",
            hint=f"Give {hidden[0]} itself",
        )
    return {**given, **{name: kept[name] for name in hidden}}


def text(value: Any, name: str) -> str:
    """Return the value of a declaration member that must be a non-empty text."""
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise InputError(f"{name} is {value!r}, it must be a text", code="member")
    return value


def _flag(value: Any, name: str) -> bool:
    if not isinstance(value, bool):
        raise InputError(f"{name} is {value!r}, it must be true or false", code="member")
    return value


flag = ValueReader(_flag, "flag")
"""Reader of a declaration member whose value is true or false."""


def number(least: int, most: int) -> ValueReader:
    """Return a reader of declaration members whose value is a whole number within bounds."""

    def read(value: Any, name: str) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise InputError(
                f"{name} is {value!r}, it must be a whole number from {least:,} to {most:,}", code="member"
            )
        return value

    return ValueReader(read, "number")


def one_of(*words: str) -> ValueReader:
    """Return a reader of declaration members whose value is one of several words."""

    def read(value: Any, name: str) -> str:
        if value not in words:
            raise InputError(f"{name} is {value!r}, it must be {' or '.join(words)}", code="member")
        return str(value)

    return ValueReader(read, "choice", words)


def mapping_of(read: MemberReader) -> ValueReader:
    """Return a reader of declaration members that are JSON objects whose values all have the same form."""

    def read_all(value: Any, name: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise InputError(f"{name} is {value!r}, it must be an object", code="member")
        return {key: read(each, f"{name}.{key}") for key, each in value.items()}

    return ValueReader(read_all, "object")


def list_of(read: MemberReader | ValueReader) -> ValueReader:
    """Return a reader of declaration members that are lists of items of one form, or a single item."""

    def read_all(value: Any, name: str) -> list[Any]:
        return [read(each, name) for each in (value if isinstance(value, list) else [value])]

    return ValueReader(read_all, "list", read.choices if isinstance(read, ValueReader) else ())
