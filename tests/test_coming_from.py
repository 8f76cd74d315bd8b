"""What docs/coming-from.md says of stores names paths, commands and settings that this version has."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

from pyoxigraph import Store

from quadrill.app.config import Settings
from quadrill.app.routes import all_routes
from tests.app.routes import no_page

from .test_compatibility import interfaces

PAGE = Path(__file__).parent.parent / "docs" / "coming-from.md"


def codes() -> set[str]:
    """The code spans in the right cells of the tables of stores."""
    section = PAGE.read_text("utf-8").partition("## Stores:")[2].partition("\n## ")[0]
    cells = re.findall(r"^\|.*\| (.*) \|$", section, re.MULTILINE)
    return {code for cell in cells for code in re.findall(r"`([^`]+)`", cell)}


def test_every_path_of_a_store_table_is_a_route() -> None:
    known = {(route.method, route.path) for route in all_routes(no_page)}
    paths = {each for each in codes() if re.match(r"(?:[A-Z]+ )?/", each)}
    assert len(paths) > 12
    for each in paths:
        method, _, target = each.rpartition(" ")
        path = target.partition("?")[0]
        assert any(path == own and method in ("", of) for of, own in known), each


def test_every_command_and_setting_of_a_store_table_exists() -> None:
    settings = {field.name for field in dataclasses.fields(Settings)}
    commands = {" ".join(each.split()[:2]) for each in codes() if each.startswith("quadrill ")}
    assert commands >= {"quadrill load", "quadrill serve", "quadrill token"}
    assert commands <= interfaces()["commands"].keys()
    named = {each for each in codes() if re.fullmatch(r"[a-z]+_[a-z_]+", each)}
    assert named >= {"public_url", "read_only", "query_timeout"} and named <= settings


def test_every_query_of_a_store_table_can_be_evaluated() -> None:
    queries = {each for each in codes() if each.startswith("SELECT")}
    assert len(queries) == 2
    for text in queries:
        Store().query(text)
