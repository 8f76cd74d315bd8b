"""The keys of `quadrill top`: order, filter, and the end."""

from __future__ import annotations

import os
import pty
import termios
import time
from pathlib import Path
from typing import Any

import pytest

from quadrill.app.commands.overview import ShownQuery, StreamFigures
from quadrill.app.commands.top_view import TopView
from tests.app.conftest import Start
from tests.program import Program


def query(name: str, **given: Any) -> ShownQuery:
    figures = {
        "name": name,
        "state": "running",
        "elements_per_second": 0.0,
        "rows_per_second": 0.0,
        "lag_ms": None,
        "window_quads": 0,
        "static_rows": 0,
        "late": 0,
        "note": "",
    }
    return ShownQuery(**(figures | given))


QUERIES = [
    query("b", elements_per_second=2.0, window_quads=5),
    query("Alert", rows_per_second=3.0, lag_ms=9),
    query("c", state="failed", static_rows=7),
]
STREAMS = [StreamFigures(name, rate, None, False, 0, 0, 0) for name, rate in (("r", 1.0), ("alerts", 5.0))]


def after(keys: str) -> TopView:
    view = TopView()
    for key in keys:
        assert view.press(key), keys
    return view


@pytest.mark.parametrize(
    ("keys", "order", "names"),
    [
        ("", "failed, then in/s", ["c", "b", "Alert"]),
        ("s", "name", ["Alert", "b", "c"]),
        ("sr", "name, reversed", ["c", "b", "Alert"]),
        ("ss", "in/s", ["b", "Alert", "c"]),
        ("sss", "rows/s", ["Alert", "b", "c"]),
        ("ssss", "lag", ["Alert", "b", "c"]),
        ("sssss", "window", ["b", "Alert", "c"]),
        ("ssssss", "static", ["c", "b", "Alert"]),
        ("sssssss", "failed, then in/s", ["c", "b", "Alert"]),
        ("x", "failed, then in/s", ["c", "b", "Alert"]),
    ],
)
def test_s_goes_through_the_orders_and_r_reverses(keys: str, order: str, names: list[str]) -> None:
    view = after(keys)
    assert [each.name for each in view.queries(QUERIES)] == names
    assert f"s sort: {order} " in view.help_line()


@pytest.mark.parametrize(
    ("keys", "names", "streams", "line"),
    [
        ("/al", ["Alert"], ["alerts"], "filter: al_ "),
        ("/alq\x7f\r", ["Alert"], ["alerts"], "filter: 'al', Esc clears it"),
        ("/q", [], [], "filter: q_ "),
        ("/al\r\x1b", ["c", "b", "Alert"], ["r", "alerts"], "filter: none"),
        ("/al\x1b", ["c", "b", "Alert"], ["r", "alerts"], "filter: none"),
        ("ss", ["b", "Alert", "c"], ["alerts", "r"], "filter: none"),
    ],
)
def test_the_filter_shows_names_that_contain_it(
    keys: str, names: list[str], streams: list[str], line: str
) -> None:
    view = after(keys)
    assert [each.name for each in view.queries(QUERIES)] == names
    assert [each.name for each in view.streams(STREAMS)] == streams
    assert line in view.help_line()


def test_q_quits_but_not_inside_the_filter() -> None:
    assert not TopView().press("q")
    view = TopView(is_typing=True)
    assert view.press("q") and view.pattern == "q"


@pytest.mark.process
def test_keys_act_on_a_terminal_and_leave_it_as_it_was(start_server: Start, tmp_path: Path) -> None:
    server = start_server()
    for name in ("alert", "other"):
        text = "SELECT ?s WHERE { STREAM <http://localhost/r> [NOW] { ?s <urn:v> [] } }"
        assert server.client.post(
            f"/queries?name={name}", content=text, headers={"Content-Type": "text/plain"}
        ).is_success
    ours, theirs = pty.openpty()
    before = termios.tcgetattr(theirs)
    environment = {"COLUMNS": "100", "LINES": "24", "TERM": "xterm", "QUADRILL_SERVER": server.url}
    process = Program(
        "top", "--interval", "60", stdin=theirs, stdout=theirs, stderr=theirs, env=os.environ | environment
    )  # fmt: skip
    try:
        read_until(ours, "q quit")
        os.write(ours, b"s")
        read_until(ours, "s sort: name")
        os.write(ours, b"/ale\r")
        shown = read_until(ours, "filter: 'ale'")
        assert "other" not in shown.rpartition("filter: ale_")[2]
        os.write(ours, b"q")
        assert process.wait(timeout=20) == 0
        assert termios.tcgetattr(theirs) == before
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        os.close(theirs)
        os.close(ours)


def read_until(terminal: int, text: str) -> str:
    """What a program prints on a terminal, up to and with a text."""
    printed, deadline = "", time.monotonic() + 60
    while text not in printed:
        assert time.monotonic() < deadline, printed
        printed += os.read(terminal, 1 << 16).decode("utf-8", "replace")
    return printed
