"""The commands of the pages on shapes print what the pages state."""

from __future__ import annotations

import shutil

import pytest

from tests.app.conftest import Start
from tests.app.test_rules_page import run_page

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="the pages need curl")


def test_commands_of_the_concepts_print_the_stated_answers(start_server: Start) -> None:
    assert run_page("concepts/shapes.md", start_server()) == 3


def test_commands_of_the_cookbook_print_the_stated_answers(start_server: Start) -> None:
    assert run_page("cookbook/shapes.md", start_server()) == 4
