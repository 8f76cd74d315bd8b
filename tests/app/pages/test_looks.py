"""Every view of the page is without findings by axe, wide and narrow, light and dark."""

from __future__ import annotations

from urllib.parse import quote

import httpx
import pytest

from .browser import NEEDS_BROWSER, Page
from .conftest import PREFIX, push, put_shapes, register, update
from .looks import NARROW, looks_well, show_as

pytestmark = NEEDS_BROWSER
INFERRED = (
    "<http://example.org/s1> <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <http://example.org/Placed>"
    " <http://example.org/inferred> ."
)
VIEWS = {
    "overview": "/",
    "queries": "/ui/queries",
    "query": "/ui/queries/in-rooms",
    "register": "/ui/register",
    "streams": "/ui/streams",
    "stream": "/ui/streams/one?iri=http://example.org/readings",
    "connectors": "/ui/connectors",
    "sparql": "/ui/sparql",
    "store": "/ui/store",
    "browse": "/ui/store?iri=http://example.org/s1",
    "why": f"/ui/why?quad={quote(INFERRED)}",
    "rules": "/ui/rules",
    "rule-set": "/ui/rules/rooms",
    "shapes": "/ui/shapes",
    "shape-set": "/ui/shapes/sensors",
    "jobs": "/ui/jobs",
    "running": "/ui/processes",
    "settings": "/ui/settings",
    "contents": "/ui/docs",
    "document": "/ui/docs/tutorial.md",
}
# What a view shows last, where that comes after the title.
FULL = {
    "overview": "Half of the inputs",
    "settings": "max_wrong_tokens",
    "browse": "inferred: why?",
    "why": "From",
    "rule-set": "cax-dw",
    "rules": "rooms",
    "shapes": "2 violations",
    "shape-set": "a sensor is in a room",
}
TEXT = (
    PREFIX
    + """SELECT ?sensor ?value ?room WHERE {
  STREAM ex:readings [RANGE 1m] { ?sensor ex:value ?value }
  GRAPH ex:rooms { ?sensor ex:in ?room }
}"""
)


def put_rules(client: httpx.Client) -> None:
    """Put a rule set whose triples contradict each other, and one with two strata."""
    placed = PREFIX + "CONSTRUCT { ?sensor a ex:Placed } WHERE { ?sensor ex:in ?room }"
    free = PREFIX + "CONSTRUCT { ?x a ex:Free } WHERE { ?x a ex:Room MINUS { ?x a ex:Placed } }"
    for name, members in (
        ("rooms", {"rules": [placed], "include": ["owl2-rl"], "into": "http://example.org/inferred"}),
        ("free", {"rules": [placed, free], "into": "http://example.org/free"}),
    ):
        client.put(f"/rules/{name}", json=members).raise_for_status()


def put_sensor_shapes(client: httpx.Client) -> None:
    """Put shapes that the data violates."""
    text = """PREFIX sh: <http://www.w3.org/ns/shacl#> PREFIX ex: <http://example.org/>
ex:SensorShape a sh:NodeShape ; sh:targetSubjectsOf ex:in ; sh:targetClass ex:Lost ;
  sh:property [ sh:path ex:in ; sh:nodeKind sh:IRI ; sh:message "a sensor is in a room that has an IRI" ] ;
  sh:property [ sh:path ( ex:in ex:floor ) ; sh:minCount 1 ; sh:severity sh:Warning ] ."""
    put_shapes(client, "sensors", text)


@pytest.fixture
def filled(client: httpx.Client) -> httpx.Client:
    """A server with a graph, a query and some results."""
    update(client, PREFIX + 'INSERT DATA { GRAPH ex:rooms { ex:s1 ex:in "kitchen" . ex:s2 ex:in "cellar" } }')
    disjoint = "<http://www.w3.org/2002/07/owl#disjointWith>"
    update(client, PREFIX + f"INSERT DATA {{ ex:s1 a ex:Lost . ex:Placed {disjoint} ex:Lost }}")
    register(client, "in-rooms", TEXT)
    put_rules(client)
    put_sensor_shapes(client)
    for at in range(5):
        push(client, PREFIX + f"ex:s{1 + at % 2} ex:value {20 + at} .", 1000 * at)
    return client


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_has_no_findings_in_any_width_and_scheme(name: str, filled: httpx.Client, page: Page) -> None:
    page.open(VIEWS[name])
    page.until(lambda: page.text("h1"), "the title")
    if name in FULL:
        page.until_text("main", FULL[name])
    if name == "shape-set":
        page.click("#results button")
        page.until_text("#shape", "sh:path")
    found = looks_well(page, name)
    assert not found, "\n".join(found)


@pytest.mark.always("queries", "jobs")
@pytest.mark.parametrize("name", ["queries", "store", "rules", "shapes", "jobs", "streams"])
def test_a_view_without_anything_to_show_says_how_to_begin(
    name: str, client: httpx.Client, page: Page
) -> None:
    page.open(VIEWS[name])
    page.until_text(".empty", "curl" if name != "streams" else "stream")
    found = looks_well(page, f"empty-{name}")
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("queries", "in-rooms"),
        ("streams", "readings"),
        ("rules", "rooms"),
        ("shapes", "sensors"),
        ("browse", "inferred: why?"),
    ],
)
def test_a_list_hides_nothing_where_it_is_narrow(
    name: str, shown: str, filled: httpx.Client, page: Page
) -> None:
    show_as(page, width=NARROW)
    page.open(VIEWS[name])
    page.until_text("main table", shown)
    hidden = page.driver.execute_script(
        "const box = document.querySelector('main .scroll'); return box.scrollWidth - box.clientWidth;"
    )
    show_as(page)
    assert hidden == 0


def test_letters_of_rates_have_their_size_where_it_is_narrow(filled: httpx.Client, page: Page) -> None:
    page.open(VIEWS["query"])
    page.until(lambda: page.all("#chart text"), "the scale")
    show_as(page, width=NARROW)
    tall = "return document.querySelector('#chart text').getBoundingClientRect().height"
    try:
        page.until(lambda: page.driver.execute_script(tall) > 10, "letters of 11 px")
    finally:
        show_as(page)
