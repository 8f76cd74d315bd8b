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
"""What a secret is shown as."""
_SECRET_PARAMETER = re.compile(
    r"([?&;](?:[^=&;#]*[_.-])?"
    r"(?:(?:access|api|auth|sas)?[_-]?(?:token|key)|secret|password|passwd|pass|pwd"
    r"|sig|signature|credential|code|appid|bearer)=)[^&;#]*",
    re.IGNORECASE,
)
_QUERY_PART = re.compile(r"\?[^\s<>]*>")
_PLACE = ("kind", "url", "ca")
"""Members that say to whom secrets are sent: who trusts another authority may talk to somebody else."""


@dataclass(frozen=True, slots=True)
class ValueReader:
    """A `MemberReader` with a description of the form of its values, for the users who write declarations."""

    read: MemberReader
    form: Form
    choices: tuple[str, ...] = ()

    def __call__(self, value: Any, name: str) -> Any:
        """The value of a member; raises InputError."""
        return self.read(value, name)


@dataclass(frozen=True, slots=True)
class DeclarationMember:
    """One member of a declaration.

    Attributes:
        name: as JSON has it.
        read: gives the value as it is used.
        default: the value where it is left out.
        required: it cannot be left out.
        secret: it is kept, and never shown.
        help: one sentence for people.
    """

    name: str
    read: MemberReader | ValueReader
    help: str
    default: Any = None
    required: bool = False
    secret: bool = False

    def to_json(self) -> dict[str, Any]:
        """What somebody has to know who gives it."""
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
    """The values of a declaration, defaults filled in; null is as good as nothing.

    Raises:
        InputError: an unknown member, a wrong value, one that is missing.
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
    """The value of a member; the error of a secret one does not show what was given."""
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
    """A declaration as it was given, without its secrets."""
    secrets = {each.name for each in members if each.secret}
    shown = {name: HIDDEN if name in secrets else value for name, value in given.items() if value is not None}
    return shown | ({"url": shown_url(shown["url"])} if isinstance(shown.get("url"), str) else {})


def shown_url(url: str) -> str:
    """An address without the keys and tokens of its query part."""
    return _SECRET_PARAMETER.sub(rf"\g<1>{HIDDEN}", url)


def shown_message(message: str) -> str:
    """A message without the query parts of the addresses in it: some services take their keys there."""
    return _QUERY_PART.sub("?…>", message)


def with_secrets(
    members: Iterable[DeclarationMember], given: Mapping[str, Any], kept: Mapping[str, Any]
) -> dict[str, Any]:
    """A declaration in which secrets that are given as they are shown stay what they were.

    Raises:
        InputError: there is none that could stay, or it would be sent to another place.
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
            f"{missing} is {HIDDEN}, which stands for one that is kept, and there is none", code="member"
        )
    moved = next((name for name in _PLACE if given.get(name) != kept.get(name)), None)
    if hidden and moved is not None:
        raise InputError(
            f"{hidden[0]} is {HIDDEN}, and {moved} is another one: a secret that is kept goes nowhere else",
            code="member",
            hint=f"Give {hidden[0]} itself",
        )
    return {**given, **{name: kept[name] for name in hidden}}


def text(value: Any, name: str) -> str:
    """A text that is not empty."""
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise InputError(f"{name} is {value!r}, it must be a text", code="member")
    return value


def _flag(value: Any, name: str) -> bool:
    if not isinstance(value, bool):
        raise InputError(f"{name} is {value!r}, it must be true or false", code="member")
    return value


flag = ValueReader(_flag, "flag")
"""True or false."""


def number(least: int, most: int) -> ValueReader:
    """A whole number within bounds."""

    def read(value: Any, name: str) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise InputError(
                f"{name} is {value!r}, it must be a whole number from {least:,} to {most:,}", code="member"
            )
        return value

    return ValueReader(read, "number")


def one_of(*words: str) -> ValueReader:
    """One of some words."""

    def read(value: Any, name: str) -> str:
        if value not in words:
            raise InputError(f"{name} is {value!r}, it must be {' or '.join(words)}", code="member")
        return str(value)

    return ValueReader(read, "choice", words)


def mapping_of(read: MemberReader) -> ValueReader:
    """An object whose values are read alike."""

    def read_all(value: Any, name: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise InputError(f"{name} is {value!r}, it must be an object", code="member")
        return {key: read(each, f"{name}.{key}") for key, each in value.items()}

    return ValueReader(read_all, "object")


def list_of(read: MemberReader | ValueReader) -> ValueReader:
    """A list whose members are read alike; one alone stands for a list of it."""

    def read_all(value: Any, name: str) -> list[Any]:
        return [read(each, name) for each in (value if isinstance(value, list) else [value])]

    return ValueReader(read_all, "list", read.choices if isinstance(read, ValueReader) else ())
