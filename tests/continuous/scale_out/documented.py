"""The windowed query texts of the documentation, prepared as registrations."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

from quadrill.continuous.language.registration import Registration
from quadrill.continuous.queries.prepare import PreparedQuery, prepare
from quadrill.continuous.settings import EngineSettings
from quadrill.store.errors import ReportedError

ROOT = Path(__file__).parents[3]
_BLOCK = re.compile(
    r"^[ ]*```(?:cqels|rspql|csparql|sparql)(?: parameters=([^\n]*))?[^\n]*\n(.*?)^[ ]*```", re.M | re.S
)


def prepared(text: str, **members: object) -> PreparedQuery:
    return prepare(Registration.from_json({"query": text, **members}), EngineSettings())


@cache
def windowed() -> list[tuple[str, PreparedQuery]]:
    """Every text of the documentation that reads a stream, with the name of its page."""
    found = []
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        for parameters, text in _BLOCK.findall(page.read_text(encoding="utf-8")):
            try:
                one = prepared(text, parameters=json.loads(parameters) if parameters else {})
            except ReportedError:
                continue  # an example of an extension, which is not loaded here
            if one.query.windows:
                found.append((page.name, one))
    return found
