"""Sources and sinks in a browser: declared by forms, started, stopped, their errors."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from selenium.webdriver.support.ui import Select

from tests.app.connectors.mosquitto import MOSQUITTO, broker_in

from .browser import NEEDS_BROWSER, Page
from .conftest import PREFIX, push, register, served
from .looks import looks_well

pytestmark = NEEDS_BROWSER

READINGS = "http://example.org/readings"
SECRET = "known-to-both-of-us"
LINE = '<http://example.org/s1> <http://example.org/value> "{}" .\n'


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that sources may read from and sinks write to."""
    return tmp_path_factory.mktemp("outside")


@pytest.fixture(scope="module")
def base(folder: Path) -> Iterator[str]:
    """A server whose sources may read below a folder and reach this machine."""
    with served(source_folders=[str(folder)], sink_folder=str(folder), remote_hosts=["127.0.0.1"]) as url:
        yield url


@pytest.fixture
def client(client: httpx.Client) -> Iterator[httpx.Client]:
    """A client of the server, which has neither sources nor sinks afterwards."""
    yield client
    for which in ("sources", "sinks"):
        for each in client.get(f"/{which}").json()[which]:
            client.delete(f"/{which}/{each['name']}").raise_for_status()


def choose(page: Page, role: str, kind: str) -> None:
    page.open("/ui/connectors")
    page.until(lambda: page.all("#kind option"), "the kinds")
    Select(page.one("#role")).select_by_value(role)
    Select(page.one("#kind")).select_by_value(kind)


def state(page: Page, name: str) -> str:
    return page.text(f'tr[data-name="{name}"] [data-field="state"]')


def test_a_file_is_tailed_by_a_source_of_the_form_stopped_started_and_deleted(
    page: Page, client: httpx.Client, folder: Path
) -> None:
    file = folder / "readings.nt"
    file.write_text(LINE.format(1))
    choose(page, "sources", "file")
    assert "Promised: each line enters exactly once" in page.text("#guarantee")
    page.write("#name", "readings-file")
    page.write("#member-stream", READINGS)
    page.write("#member-format", "application/n-triples")
    page.click("#save")
    page.until_text("#declare-problem", "path")
    page.write("#member-path", str(file))
    page.click("#check")
    page.until_text("#outcome", "would be a new one")
    assert client.get("/sources").json()["sources"] == []
    page.click("#save")
    page.until(lambda: state(page, "readings-file") == "running", "it runs")
    with file.open("a") as more:
        more.write(LINE.format(2))
    page.until(lambda: client.get("/sources/readings-file").json()["taken"] == 2, "both lines have entered")
    row = 'tr[data-name="readings-file"]'
    page.click(f'{row} [data-action="stop"]')
    page.until(lambda: state(page, "readings-file") == "stopped", "it is stopped")
    page.click(f'{row} [data-action="start"]')
    page.until(lambda: state(page, "readings-file") == "running", "it runs again")
    page.confirm(f'{row} [data-action="drop"]')
    page.until(lambda: page.all(row) == [], "it is gone")
    assert client.get("/sources").json()["sources"] == []


def test_a_secret_is_never_shown_again_and_stays_while_the_rest_is_changed(
    page: Page, client: httpx.Client
) -> None:
    choose(page, "sources", "webhook")
    page.write("#name", "hook")
    page.write("#member-stream", READINGS)
    page.write("#member-format", "application/n-triples")
    page.driver.execute_script("document.getElementById('more').open = true")
    page.write("#member-secret", SECRET)
    page.click("#save")
    page.until(lambda: state(page, "hook") == "running", "it runs")
    page.until_text("#outcome", "X-Hub-Signature-256")
    page.click('tr[data-name="hook"] [data-action="edit"]')
    page.until(lambda: page.one("#name").get_property("value") == "hook", "its declaration is in the form")
    assert SECRET not in page.driver.page_source
    field = page.one("#member-secret")
    assert (field.get_property("value"), field.get_attribute("type")) == ("", "password")
    assert "kept" in field.get_attribute("placeholder")
    page.write("#member-batch", "17")
    page.click("#save")
    page.until(lambda: client.get("/sources/hook").json().get("batch") == 17, "it is changed")
    body = LINE.format(1).encode()
    sign = "sha256=" + hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
    for signature, status in ((sign, 200), ("sha256=00", 401)):
        answer = client.post("/sources/hook", content=body, headers={"X-Hub-Signature-256": signature})
        assert answer.status_code == status
    page.until(lambda: page.text('tr[data-name="hook"] td:nth-child(5)').startswith("1"), "it is counted")


def test_what_a_source_could_not_read_is_shown_and_dropped(
    page: Page, client: httpx.Client, folder: Path
) -> None:
    (folder / "bad.nt").write_text(LINE.format(1) + "this is no triple\n")
    declared = {"kind": "file", "stream": READINGS, "path": str(folder / "bad.nt")}
    client.put("/sources/bad", json=declared | {"format": "application/n-triples"}).raise_for_status()
    page.open("/ui/connectors")
    page.until(lambda: client.get("/sources/bad").json()["refused"] == 1, "one line is refused")
    page.click('tr[data-name="bad"] [data-action="letters"]')
    page.until_text("#letters tbody", "this is no triple")
    page.confirm("#letters-drop")
    page.until_text("#letters-note", "None")
    assert client.get("/sources/bad/dead-letters").json() == {"letters": []}
    page.click("#letters-close")
    assert not page.one("#letters-panel").is_displayed()


def test_a_sink_whose_other_side_is_away_says_so_and_a_file_takes_what_comes(
    page: Page, client: httpx.Client, folder: Path
) -> None:
    register(client, "latest", PREFIX + "SELECT * WHERE { STREAM ex:readings [NOW] { ?s ex:value ?v } }")
    choose(page, "sinks", "webhook")
    page.write("#name", "pager")
    page.write("#member-query", "latest")
    page.write("#member-url", "http://127.0.0.1:9/alerts")
    page.click("#save")
    page.until(lambda: state(page, "pager") == "running", "it waits for events")
    choose(page, "sinks", "file")
    page.write("#name", "archive")
    page.write("#member-query", "latest")
    page.write("#member-path", "latest")
    page.click("#save")
    page.until(lambda: state(page, "archive") == "running", "it runs")
    push(client, PREFIX + "ex:s1 ex:value 21 .", 1_000)
    page.until(lambda: client.get("/sinks/archive").json()["taken"] == 1, "the event is written")
    page.until(lambda: state(page, "pager") == "waiting", "nobody takes it")
    page.until_text("#sinks tbody tr.message", "Newest error")
    found = looks_well(page, "connectors-sinks")
    assert not found, "\n".join(found)


def test_a_wrong_member_is_told_beside_the_form(page: Page, client: httpx.Client) -> None:
    choose(page, "sources", "poll")
    page.write("#name", "weather")
    page.write("#member-stream", READINGS)
    page.write("#member-url", "http://192.0.2.1/weather")
    page.write("#member-every", "5s")
    page.click("#save")
    page.until_text("#declare-problem", "remote_hosts")
    assert client.get("/sources").json()["sources"] == []


def test_every_kind_has_a_form_without_findings(page: Page, client: httpx.Client) -> None:
    page.open("/ui/connectors")
    page.until_text("#first-sources", "curl")
    for role in ("sources", "sinks"):
        for kind in client.get(f"/{role}:kinds").json()["kinds"]:
            choose(page, role, kind["kind"])
            page.driver.execute_script("document.getElementById('more').open = true")
            shown = {each.get_attribute("name") for each in page.all("#declare [name]")}
            assert shown == {each["name"] for each in kind["members"]}
    choose(page, "sources", "mqtt")
    page.driver.execute_script("document.getElementById('more').open = true")
    found = looks_well(page, "connectors-mqtt")
    assert not found, "\n".join(found)


def test_a_source_that_refuses_is_amber_and_a_reason_of_its_query(
    page: Page, client: httpx.Client, folder: Path
) -> None:
    (folder / "refused.nt").write_text("nonsense\n" * 3)
    register(client, "waits", PREFIX + "SELECT ?s WHERE { STREAM ex:readings [NOW] { ?s ex:value ?v } }")
    members = {"kind": "file", "stream": READINGS, "path": str(folder / "refused.nt")}
    client.put("/sources/hall", json=members | {"format": "application/n-triples"}).raise_for_status()
    page.open("/ui/connectors")
    page.until(lambda: page.all('tr[data-name="hall"] [data-field="health"]'), "the health")
    assert state(page, "hall") == "running", "the state is the same"
    badge = page.one('tr[data-name="hall"] [data-field="state"]')
    assert "badge-degraded" in badge.get_attribute("class").split()
    colour = badge.value_of_css_property("background-color")
    red, green, blue = (int(each) for each in re.findall(r"\d+", colour)[:3])
    assert red > blue and green > blue, f"{colour} is no amber"
    page.until_text("#sources", "Refused")
    page.open("/ui/streams")
    page.until_text("#streams tbody", "empty")
    page.open("/ui/queries/waits")
    page.until_text('#reasons [data-reason="source"]', "The source hall")
    assert "has refused 3 records" in page.text('#reasons [data-reason="source"]')
    page.click('#reasons [data-reason="source"] a[href="/ui/connectors"]')
    page.until(lambda: page.all('tr[data-name="hall"]'), "the sources")
    found = looks_well(page, "connectors-degraded")
    assert not found, "\n".join(found)


@pytest.mark.skipif(MOSQUITTO is None, reason="needs Debian's package mosquitto")
def test_messages_of_a_broker_come_in_by_a_source_of_the_form(
    page: Page, client: httpx.Client, tmp_path: Path
) -> None:
    with broker_in(tmp_path / "broker") as broker:
        choose(page, "sources", "mqtt")
        page.write("#name", "sensors")
        page.write("#member-stream", READINGS)
        page.write("#member-format", "application/n-triples")
        page.write("#member-url", broker.url)
        page.write("#member-topic", "home/#")
        page.click("#save")
        page.until(lambda: state(page, "sensors") == "running", "it is connected")
        broker.publish("home/kitchen", LINE.format(21))
        page.until(lambda: client.get("/sources/sensors").json()["taken"] == 1, "the message has entered")
        page.until_text('tr[data-name="sensors"]', "home/#")
        page.open(f"/ui/streams/one?iri={READINGS}")
        page.until_text("#sources", "Fed by sensors (mqtt, running)")
        page.until_text("#tail tbody", "21")
