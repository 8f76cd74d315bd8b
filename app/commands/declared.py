"""Reader of declaration files in TOML or YAML, with ``${NAME}`` replaced by an environment variable."""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, time
from pathlib import Path
from typing import Any

from quadrill.store.errors import UnsupportedError

from .arguments import OfflineError, UsageError, dialect_of, media_type_of, read_text

SECTIONS = ("prefixes", "rules", "shapes", "streams", "queries", "sources", "sinks")
"""Sections of a declaration file in creation order: objects of a section need only earlier sections."""

STANDARD_INPUT = Path("-")
"""File name that stands for standard input."""

_REFERENCE = re.compile(r"\$\$\{|\$\{([^{}]*)(\}?)")
"""Reference to an environment variable, or the escape ``$${``, which stands for ``${``."""
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}\Z")
_OBJECTS = ("headers", "options")
"""Members of sources and sinks that a file may give as JSON in a string."""
_MOST_LEVELS = 100
"""Maximum nesting of a declaration, so that the recursive conversion cannot overflow the stack."""


@dataclass(frozen=True, slots=True)
class Declared:
    """Declaration of one object in a declaration file; a prefix has ``uri`` as its only member."""

    section: str
    name: str
    members: Mapping[str, Any]
    file: Path

    @property
    def place(self) -> str:
        """The file, section and name of the declaration, for error messages."""
        return f"{self.file}: {self.section}.{self.name}"


def read_files(
    files: Iterable[Path], environment: Mapping[str, str], form: str = "toml"
) -> tuple[list[Declared], frozenset[str]]:
    """Return all declarations of the files, and the names of the files' sections, including empty sections.

    The file ``-`` is standard input in the format ``form``, which is toml or yaml; relative paths in standard
    input start at the working folder.

    Raises:
        OfflineError: a file is invalid, two files declare the same object, or a variable is not set.
        UnsupportedError: a file is YAML, and the YAML library is not installed.
    """
    found: dict[tuple[str, str], Declared] = {}
    sections: set[str] = set()
    for each in files:
        source, file = (None, Path("standard input")) if each == STANDARD_INPUT else (each, each)
        document = _parsed(read_text(source), file, f".{form}" if source is None else each.suffix)
        for section, entries in document.items():
            if section not in SECTIONS:
                raise OfflineError(
                    f"{file}: there is no section {section!r}", hint=f"Sections are {', '.join(SECTIONS)}"
                )
            sections.add(section)
            if not isinstance(entries, dict | None):
                raise OfflineError(f"{file}: {section} must have a name for each of its declarations")
            for name, members in (entries or {}).items():
                declared = _declared(section, name, members, file, environment)
                before = found.setdefault((section, declared.name), declared)
                if before is not declared:
                    raise OfflineError(f"{declared.place} is declared in {before.file}, too")
    return list(found.values()), frozenset(sections)


def escaped(text: str) -> str:
    """Escape ``${`` as ``$${``, so that a declaration file's reader replaces no variable in the text."""
    return text.replace("${", "$${")


def _parsed(text: str, file: Path, suffix: str) -> dict[Any, Any]:
    if suffix == ".toml":
        try:
            return tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise OfflineError(f"{file} is not valid TOML: {error}") from error
    if suffix not in (".yaml", ".yml"):
        raise UsageError(f"the ending of {file} names no known format", hint="It is .toml, .yaml or .yml.")
    try:
        from .yaml_text import YamlFault, read_yaml
    except ModuleNotFoundError as error:
        raise UnsupportedError(
            "YAML",
            f"YAML needs the library {error.name}, which is not installed",
            hint="pip install 'quadrill[yaml]', or write TOML",
        ) from error
    try:
        document = read_yaml(text)
    except YamlFault as error:
        raise OfflineError(f"{file} is not valid YAML: {error}") from error
    if not isinstance(document, dict | None):
        raise OfflineError(f"{file} must have sections: {', '.join(SECTIONS)}")
    return document or {}


def _declared(section: str, name: Any, members: Any, file: Path, environment: Mapping[str, str]) -> Declared:
    place = f"{file}: {section}.{name}"
    if not isinstance(name, str):
        raise OfflineError(f"{place}: the name must be a text", hint="Write it in quotes")
    if section == "prefixes":
        members = {"uri": members}
        if not isinstance(members["uri"], str):
            raise OfflineError(f"{place}: a prefix stands for an IRI")
    elif not _NAME.match(name):
        raise OfflineError(
            f"{place}: {name!r} is not a valid name",
            hint="A letter or digit, then at most 127 letters, digits, dots, underscores, hyphens",
        )
    if not isinstance(members, dict | None):
        raise OfflineError(f"{place} must have members")
    given = _value(members or {}, place, environment, 0)
    given = {member: value for member, value in given.items() if value is not None}
    if given.pop("name", name) != name:
        raise OfflineError(f"{place}: name differs from the name that it stands under")
    if section == "queries":
        given = _with_text(given, place, file)
    if section == "rules" and "files" in given:
        given = _with_rules(given, place, file)
    if section == "shapes":
        given = _with_shapes_graph(given, place, file)
    if section in ("sources", "sinks"):
        given |= {each: _object(given[each], f"{place}: {each}") for each in _OBJECTS if each in given}
    return Declared(section, name, given, file)


def _with_text(members: dict[str, Any], place: str, file: Path) -> dict[str, Any]:
    """Return a query's members with the member ``file`` replaced by the query text of the named file.

    The ending of the file's name selects the dialect, unless the members name one.
    """
    if ("query" in members) == ("file" in members):
        raise OfflineError(f"{place} needs one of query, the text, and file, which has it")
    if "query" in members:
        return members
    named = members.pop("file")
    text = _text_of(named, place, file)
    dialect = dialect_of(Path(named))
    return {"query": text} | ({} if dialect is None else {"dialect": dialect}) | members


def _with_rules(members: dict[str, Any], place: str, file: Path) -> dict[str, Any]:
    """Return a rule set's members with the texts of the files in the member ``files`` after its rules."""
    named, rules = members.pop("files"), members.get("rules", [])
    if not isinstance(named, list) or not isinstance(rules, list):
        raise OfflineError(f"{place}: files and rules must be lists")
    return {**members, "rules": [*rules, *(_text_of(each, place, file) for each in named)]}


def _with_shapes_graph(members: dict[str, Any], place: str, file: Path) -> dict[str, Any]:
    """Return the members of shapes with the shapes graph as ``text`` and its media type as ``type``."""
    if len({"text", "file", "graph"} & members.keys()) != 1:
        raise OfflineError(
            f"{place} needs one of text, the shapes graph, file, which has it, and graph, which names it"
        )
    if "type" in members:
        raise OfflineError(f"{place} has no member 'type'", hint="The text is Turtle; a file can be any RDF.")
    if "graph" in members:
        return members
    if "file" not in members:
        return {**members, "type": "text/turtle"}
    named = members.pop("file")
    text = _text_of(named, place, file)
    try:
        return {**members, "text": text, "type": media_type_of(Path(named))}
    except UsageError as error:
        raise OfflineError(f"{place}: {error.message}") from error


def _text_of(named: Any, place: str, file: Path) -> str:
    """Return the text of a file that a declaration names; relative paths begin at the declaration file."""
    if not isinstance(named, str):
        raise OfflineError(f"{place}: file must be a path")
    try:
        return read_text(file.parent / named)
    except OSError as error:
        raise OfflineError(f"{place}: file {named}: {error.strerror or error}") from error
    except OfflineError as error:
        raise OfflineError(f"{place}: file: {error.message}") from error


def _object(value: Any, place: str) -> Any:
    """Parse a member that is given as JSON in a string, so that one variable can hold a whole object."""
    if not isinstance(value, str) or not value.startswith("{"):
        return value
    try:
        return json.loads(value)
    except ValueError as error:
        raise OfflineError(f"{place} is not a JSON object") from error


def _value(value: Any, place: str, environment: Mapping[str, str], level: int) -> Any:
    """Convert a TOML or YAML value to a JSON value; replace variables, and format dates as strings."""
    if level > _MOST_LEVELS:
        raise OfflineError(f"{place} is nested deeper than {_MOST_LEVELS} levels")
    if isinstance(value, str):
        return _replaced(value, place, environment)
    if isinstance(value, dict):
        wrong = next((key for key in value if not isinstance(key, str)), None)
        if wrong is not None:
            raise OfflineError(f"{place}: the name {wrong!r} must be a text", hint="Write it in quotes")
        separator = "." if level else ": "
        return {
            key: _value(each, f"{place}{separator}{key}", environment, level + 1)
            for key, each in value.items()
        }
    if isinstance(value, list):
        return [_value(each, place, environment, level + 1) for each in value]
    if isinstance(value, date | time):
        return value.isoformat()
    if value is None or isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    raise OfflineError(f"{place}: {value!r} is not a JSON value")


def _replaced(text: str, place: str, environment: Mapping[str, str]) -> str:
    def replaced(match: re.Match[str]) -> str:
        name, end = match[1], match[2]
        if name is None:
            return "${"
        if not end or not _VARIABLE.match(name):
            raise OfflineError(f"{place}: {match[0]} names no variable", hint="$${ stands for ${ itself")
        if name not in environment:
            raise OfflineError(f"{place}: the environment has no variable {name}")
        return environment[name]

    return _REFERENCE.sub(replaced, text)
