"""Charts draw what they are given: bars, lines over event time, points on a map."""

from __future__ import annotations

from typing import Any

import pytest

from .browser import NEEDS_BROWSER, Page
from .looks import looks_well

pytestmark = NEEDS_BROWSER
TONES = [{"tone": 0, "text": "under 15 min"}, {"tone": 3, "text": "over 45 min"}]


@pytest.fixture
def sheet(page: Page) -> Page:
    """A view of the page whose main part is one empty panel for a chart."""
    page.open("/ui/processes")
    page.driver.execute_script(
        "const place = document.createElement('div'); place.id = 'place';"
        "const panel = document.createElement('section'); panel.className = 'panel'; panel.append(place);"
        "const title = document.createElement('h1'); title.textContent = 'A chart';"
        "document.querySelector('main').replaceChildren(title, panel)"
    )
    return page


def draw(page: Page, kind: str, data: object, options: object | None = None) -> Any:
    """Draw with `charts/KIND.js`; what is picked becomes the title of the page."""
    return page.driver.execute_async_script(
        """const [kind, data, options, done] = arguments;
        const name = {bars: 'drawBars', series: 'drawSeries', map: 'drawMap'}[kind];
        const base = document.querySelector('link[rel=stylesheet]').href.replace(/styles\\/.*/, '');
        if (options.onPick) options.onPick = (picked) => { document.title = picked.label; };
        if (options.tone) options.tone = (value) => Math.min(4, Math.floor(value / 15));
        import(`${base}charts/${kind}.js`).then((charts) => {
          const drawn = charts[name](document.getElementById('place'), data, options);
          done(kind === 'map' ? drawn.at(0, 0) : null);
        });""",
        kind,
        data,
        options or {},
    )


def letters(page: Page, css: str) -> list[str]:
    """What is written in parts of a picture."""
    found: list[str] = page.driver.execute_script(
        "return [...document.querySelectorAll(arguments[0])].map((node) => node.textContent)", css
    )
    return found


def test_bars_are_sorted_rounded_for_the_eye_and_exact_in_the_tooltip(sheet: Page) -> None:
    data = [
        {"label": "low", "value": 1.23456789},
        {"label": "high", "value": 24691.3578},
        {"label": "none", "value": None},
    ]
    draw(sheet, "bars", data, {"caption": "Delays", "unit": "min", "onPick": True})
    assert sheet.text(".bar-label").splitlines() == ["high", "low"]
    assert sheet.text(".bar-figure").splitlines() == ["24,691 min", "1.235 min"]
    assert sheet.all(".bar-figure")[1].get_attribute("title") == "1.23456789"
    sheet.click("button.bar-label")
    assert sheet.driver.title == "high"


def test_bars_below_zero_begin_at_the_line_of_zero(sheet: Page) -> None:
    draw(sheet, "bars", [{"label": "up", "value": 30}, {"label": "down", "value": -10}])
    up, down = (fill.rect for fill in sheet.all(".bar-fill"))
    assert abs(down["x"] + down["width"] - up["x"]) < 1.5
    assert abs(up["width"] / down["width"] - 3) < 0.05


def test_bars_that_are_drawn_again_keep_their_elements(sheet: Page) -> None:
    draw(sheet, "bars", [{"label": "a", "value": 1}, {"label": "b", "value": 2}])
    before = sheet.all(".bars li")
    draw(sheet, "bars", [{"label": "a", "value": 3}, {"label": "b", "value": 2}])
    assert sheet.all(".bars li") == before
    assert sheet.text(".bar-label").splitlines() == ["a", "b"]
    many = [{"label": f"n{i}", "value": i} for i in range(25)]
    draw(sheet, "bars", many)
    assert len(sheet.all(".bars li")) == 20
    assert "5 more not shown" in sheet.text("#place")


def test_lines_break_where_there_is_no_value_and_show_exact_ones_at_an_instant(sheet: Page) -> None:
    start = 1357466400000
    lines = [
        {
            "label": "UA",
            "points": [[start, 1], [start + 60000, None], [start + 120000, 2.123456], [start + 180000, 4]],
        },
        {"label": "DL", "points": [[start + 60000, -3]]},
    ]
    draw(sheet, "series", lines, {"caption": "Mean delay", "unit": "min", "onPick": True})
    paths = [path.get_attribute("d") or "" for path in sheet.all("path.line")]
    assert [path.count("M") for path in paths] == [2, 1]
    assert "NaN" not in "".join(paths)
    assert letters(sheet, ".scale")[:5] == ["-4", "-2", "0", "2", "4"]
    assert "10:00" in " ".join(letters(sheet, ".scale"))
    picture = sheet.one("svg.series")
    for _ in range(3):
        picture.send_keys("\ue014")
    assert "2013-01-06 10:02:00" in sheet.text(".reading")
    assert "2.123456" in sheet.text(".reading")
    sheet.click(".legend button")
    assert sheet.driver.title == "UA"


def test_no_more_lines_than_can_be_told_apart_are_drawn(sheet: Page) -> None:
    draw(sheet, "series", [{"label": f"k{i}", "points": [[1000 * i, i]]} for i in range(12)])
    assert len(sheet.all("path.line")) == 8
    assert "4 more lines not shown" in sheet.text(".legend")


def test_a_map_zooms_to_its_points_and_keeps_its_view(sheet: Page) -> None:
    points = [
        {"lon": -74.17, "lat": 40.69, "label": "EWR", "value": 12},
        {"lon": -118.4, "lat": 33.94, "label": "LAX", "value": 48.123456},
        {"lon": -87.9, "lat": 41.98, "label": "ORD", "value": 3},
        {"lon": 500, "lat": 0, "label": "nowhere"},
    ]
    options = {"caption": "Airports", "unit": "min", "tone": True, "onPick": True, "tones": TONES}
    zero = draw(sheet, "map", points, options)
    assert letters(sheet, ".name") == ["LAX", "EWR", "ORD"]
    assert "40° N" in letters(sheet, ".graticule text")
    box = sheet.one("svg.map").rect
    for point in sheet.all(".point"):
        assert box["x"] < point.rect["x"] < box["x"] + box["width"]
        assert box["y"] < point.rect["y"] < box["y"] + box["height"]
    assert "tone-3" in str(sheet.one(".point").get_attribute("class"))
    assert sheet.one(".point").get_attribute("aria-label") == "LAX 48.123456 min"
    assert draw(sheet, "map", points[:2], options) == zero
    assert draw(sheet, "map", [{"lon": 10, "lat": 50, "label": "far"}], options) != zero
    sheet.one(".point").send_keys("\ue007")
    assert sheet.driver.title == "far"


MINUTES = {"unit": "min", "onPick": True}
AIRPORTS = [
    {"label": "EWR", "lon": -74.17, "lat": 40.69, "value": 12},
    {"label": "JFK", "lon": -73.78, "lat": 40.64, "value": 33},
    {"label": "LGA", "lon": -73.87, "lat": 40.78, "value": 5},
    {"label": "LAX", "lon": -118.4, "lat": 33.94, "value": 70},
    {"label": "ORD", "lon": -87.9, "lat": 41.98, "value": 22},
    {"label": "MIA", "lon": -80.29, "lat": 25.79, "value": 0},
    {"label": "HNL", "lon": -157.92, "lat": 21.32, "value": 2},
]
LINES = [
    {
        "label": f"line {k}",
        "points": [[1357466400000 + 60000 * i, (i * (k + 1)) % 17 + 3.21] for i in range(90)],
    }
    for k in range(5)
]
BARS = [
    {"label": name, "value": 70 - 13 * i}
    for i, name in enumerate(("UA", "an airline of a long name", "B6", "DL"))
]
CASES: dict[str, tuple[str, object, object]] = {
    "world": ("map", [], {"caption": "No point yet"}),
    "bars": ("bars", BARS, {"caption": "Mean delay by airline", "tone": True, **MINUTES}),
    "series": ("series", LINES, {"caption": "Delay", **MINUTES}),
    "map": ("map", AIRPORTS, {"caption": "Airports", "tone": True, "tones": TONES, **MINUTES}),
}


@pytest.mark.always("bars", "series")
@pytest.mark.parametrize("case", CASES)
def test_a_chart_has_no_findings_in_any_width_and_scheme(case: str, sheet: Page) -> None:
    draw(sheet, *CASES[case])
    found = looks_well(sheet, f"chart-{case}")
    assert not found, "\n".join(found)
