"""Tables that are polled change in place: what a person holds on to stays."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .browser import NEEDS_BROWSER, Page
from .conftest import served

pytestmark = NEEDS_BROWSER


@pytest.fixture(scope="module")
def base() -> Iterator[str]:
    """A server for its modules alone."""
    with served() as url:
        yield url


def redrawn(page: Page, steps: str) -> object:
    """What a script gives that has ``el``, ``redraw`` and a new ``list`` in the page."""
    page.open("/ui/queries")
    return page.driver.execute_async_script(
        "const done = arguments[arguments.length - 1];"
        "const base = '/ui/static/base';"
        "Promise.all([import(`${base}/dom.js`), import(`${base}/redraw.js`)]).then(([{ el }, { "
        "redraw }]) => {"
        "const list = el('ul'); document.body.append(list);"
        f"{steps}"
        "}).catch((problem) => done(String(problem)))"
    )


def test_elements_that_stay_are_the_same_ones_in_the_new_order(page: Page) -> None:
    assert redrawn(
        page,
        "const item = (key, text) => el('li', { dataset: { key } }, text);"
        "redraw(list, item('a', 'one'), item('b', 'two'), item('c', 'three'));"
        "const [a, b, c] = list.children;"
        "redraw(list, item('c', 'three'), item('d', 'new'), item('b', 'changed'));"
        "done([[...list.children].map((each) => each.textContent).join(), list.children[0] === c, "
        "list.children[2] === b, a.isConnected]);",
    ) == ["three,new,changed", True, True, False]


def test_the_focus_stays_and_a_button_does_what_the_newest_drawing_says(page: Page) -> None:
    assert redrawn(
        page,
        "const said = [];"
        "const row = (key, word) => el('li', { dataset: { key } }, el('button', { on: { click: () "
        "=> said.push(word) } }, word));"
        "redraw(list, row('a', 'old'), row('b', 'first'));"
        "const button = list.querySelectorAll('button')[1]; button.focus();"
        "redraw(list, row('b', 'second'));"
        "button.click();"
        "done([said.join(), document.activeElement === button, button.textContent]);",
    ) == ["second", True, "second"]


def test_attributes_come_and_go_but_what_a_person_opened_stays_open(page: Page) -> None:
    assert redrawn(
        page,
        "redraw(list, el('li', {}, el('details', { class: 'bad', title: 'why' }, el('summary', {}, "
        "'x'))), 'text');"
        "const details = list.querySelector('details'); details.open = true;"
        "redraw(list, el('li', {}, el('details', { class: 'good', hidden: true }, el('summary', "
        "{}, 'x'))), 'other');"
        "done([details.isConnected, details.open, details.className, details.hidden, "
        "details.title, list.lastChild.data]);",
    ) == [True, True, "good", True, "", "other"]


def test_an_element_of_another_kind_takes_the_place(page: Page) -> None:
    assert (
        redrawn(
            page,
            "redraw(list, el('li', {}, 'a'), el('p', {}, 'b'), 'c');"
            "redraw(list, el('p', {}, 'b'));"
            "done([...list.childNodes].map((each) => `${each.nodeName} ${each.textContent}`).join());",
        )
        == "P b"
    )
