"""Inferred quads in a browser: their marks among the triples of an IRI, and the page that says why."""

from __future__ import annotations

import random
from urllib.parse import parse_qs, quote, urlsplit

import httpx
import pytest
from selenium.webdriver.common.keys import Keys

from .browser import NEEDS_BROWSER, Page
from .conftest import PREFIX, register, update
from .test_rules_page import put

pytestmark = NEEDS_BROWSER

GRAND = PREFIX + "CONSTRUCT { ?x ex:grand ?z } WHERE { ?x ex:parent ?y . ?y ex:parent ?z }"
KIN = PREFIX + "CONSTRUCT { ?x ex:kin ?y } WHERE { ?x ex:grand ?y }"
FAMILY = (
    PREFIX + "INSERT DATA { ex:ann ex:parent ex:bob . ex:bob ex:parent ex:cleo . ex:cleo ex:parent ex:dan }"
)
ANN = "/ui/store?iri=http://example.org/ann"
MARK = "#from .mark-inferred"
E = "http://example.org/"
DAN = f"<{E}bob> <{E}grand> <{E}dan> <{E}family> ."


def why_view(line: str) -> str:
    """The page that says why a quad is in the store."""
    return f"/ui/why?quad={quote(line)}"


def family(client: httpx.Client) -> None:
    """Store a family with two rule sets, of which the second one reads the first."""
    update(client, FAMILY)
    put(client, "family", GRAND)
    put(client, "kin", KIN, **{"from": ["http://example.org/family"]})


def test_why_of_an_inferred_quad_is_one_click_away_and_premises_lead_on(
    client: httpx.Client, page: Page
) -> None:
    family(client)
    page.open(ANN)
    page.until_text("#from", "kin")
    assert [each.text for each in page.all(MARK)] == ["inferred: why?", "inferred: why?"]
    names = [each.get_attribute("aria-label") for each in page.all(MARK)]
    kin = "inferred: why? <http://example.org/ann> <http://example.org/kin> <http://example.org/cleo>"
    assert kin in names
    page.press(lambda: page.all(MARK)[names.index(kin)], "why of the triple of kin")
    page.until_text("#answer", "Inferred: rules derive it in 1 way.")
    assert page.text("#derivations pre") == KIN
    assert page.text("#quad") == "ex:ann ex:kin ex:cleo in ex:kin"
    assert page.one("#derivations a").get_attribute("href") == f"{page.base}/ui/rules/kin"
    assert page.text(".premises") == "ex:ann ex:grand ex:cleo in ex:family inferred: why?"
    page.click(".premises .mark-inferred")
    page.until_text("#quad", "ex:ann ex:grand ex:cleo in ex:family")
    page.until_text("#derivations pre", GRAND)
    assert page.text(".premises").splitlines() == [
        "ex:ann ex:parent ex:bob (asserted)",
        "ex:bob ex:parent ex:cleo (asserted)",
    ]
    page.click(".premises a")
    page.until_text("h1", "http://example.org/ann")


def test_page_of_a_quad_follows_commits(client: httpx.Client, page: Page) -> None:
    family(client)
    page.open(why_view(DAN))
    page.until_text("#answer", "Inferred: rules derive it in 1 way. No input graph has the triple.")
    update(
        client, PREFIX + "INSERT DATA { ex:bob ex:grand ex:dan ; ex:parent ex:cy . ex:cy ex:parent ex:dan }"
    )
    page.until_text("#answer", "Asserted and inferred")
    assert "in 2 ways" in page.text("#answer")
    update(client, PREFIX + "DELETE WHERE { ?x ex:parent ex:dan }")
    page.until_text("#problem", "the store does not have the quad")
    assert not page.one("#derivations-panel").is_displayed()
    update(client, PREFIX + "INSERT DATA { ex:cleo ex:parent ex:dan }")
    page.until_text("#answer", "in 1 way")
    assert page.text("#problem") == ""


def test_quad_of_a_built_in_rule_names_it_and_one_of_a_client_has_no_rule(
    client: httpx.Client, page: Page
) -> None:
    rdfs = "http://www.w3.org/2000/01/rdf-schema#"
    update(client, f"{PREFIX} INSERT DATA {{ ex:Sensor <{rdfs}subClassOf> ex:Thing . ex:s1 a ex:Sensor }}")
    put(client, "rdfs", include=["rdfs"])
    page.open("/ui/store?iri=http://example.org/s1")
    page.until_text("#from", "inferred: why?")
    page.click(MARK)
    page.until_text("#derivations", "Built-in rule rdfs9.")
    assert "rdf11-mt" in (page.one("#derivations p a").get_attribute("href") or "")
    type_ = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
    page.open(why_view(f"<http://example.org/s1> {type_} <http://example.org/Sensor> ."))
    page.until_text("#answer", "Asserted: a client, a load or a view wrote it. No rule derives it.")
    assert "in the default graph" in page.text("#quad")


@pytest.mark.parametrize("line", ["", "what", "<<( <urn:a>", "<urn:a> <urn:b> <urn:c> . <urn:d>"])
def test_what_is_no_quad_is_shown_with_the_reason(line: str, page: Page) -> None:
    page.open(why_view(line))
    page.until_text("#problem", "400")
    assert page.text("#quad") == line or line.startswith("<urn")


def test_triples_of_an_iri_follow_commits(client: httpx.Client, page: Page) -> None:
    update(client, FAMILY)
    page.open(ANN)
    page.until_text("#feed-state", "live")
    assert not page.all(MARK)
    put(client, "family", GRAND)
    page.until_text(MARK, "inferred: why?")
    update(client, PREFIX + "INSERT DATA { ex:ann ex:grand ex:cleo }")
    page.until_text(MARK, "asserted and inferred: why?")
    update(client, PREFIX + "DELETE WHERE { ex:bob ex:parent ?x }")
    page.until(lambda: not page.all(MARK), "the end of the inferred triple")
    page.open("/ui/store")
    page.until_text('#graphs tr[data-key="http://example.org/family"]', "Inferred")
    link = page.one('#graphs tr[data-key="http://example.org/family"] a[href^="/ui/rules"]')
    assert link.text == "Inferred"


def test_focus_stays_on_a_mark_when_a_commit_comes_and_enter_opens_it(
    client: httpx.Client, page: Page
) -> None:
    family(client)
    page.open(ANN)
    page.until_text("#feed-state", "live")
    page.until_text(MARK, "inferred: why?")
    page.driver.execute_script("arguments[0].focus()", page.one(MARK))
    update(client, PREFIX + "INSERT DATA { ex:ann ex:parent ex:eve }")
    page.until_text("#from", "eve")
    focused = page.driver.switch_to.active_element
    assert "mark-inferred" in str(focused.get_attribute("class"))
    focused.send_keys(Keys.ENTER)
    page.until_text("#derivations", "CONSTRUCT")


def test_quad_that_is_too_long_for_a_request_has_a_mark_without_a_link(
    client: httpx.Client, page: Page
) -> None:
    update(client, PREFIX + f'INSERT DATA {{ ex:ann ex:note "{"long " * 20_000}" }}')
    put(client, "long", PREFIX + "CONSTRUCT { ?x ex:copy ?y } WHERE { ?x ex:note ?y }")
    page.open(ANN)
    page.until_text("#from .chip", "inferred")
    assert not page.all(MARK)


def random_data(rng: random.Random) -> str:
    """An update with random triples of four predicates in the default graph and two named ones."""
    terms = ["ex:a", "ex:b", "ex:c", '"x\\n\\"y\\""@en', "7", "_:n"]

    def triple() -> str:
        return f"{rng.choice(terms[:3])} ex:{rng.choice('pqrs')} {rng.choice(terms)} ."

    graphs = [f"GRAPH ex:g{number} {{ {' '.join(triple() for _ in range(6))} }}" for number in range(2)]
    return f"{PREFIX} INSERT DATA {{ {' '.join(triple() for _ in range(6))} {' '.join(graphs)} }}"


@pytest.mark.parametrize("seed", range(4))
def test_marks_say_what_the_interface_says(seed: int, client: httpx.Client, page: Page) -> None:
    rng = random.Random(seed)
    update(client, random_data(rng))
    register(
        client,
        "view",
        PREFIX + "CONSTRUCT { ?x ex:q ?y } WHERE { ?x ex:p ?y }",
        into_graph="http://example.org/view",
    )
    swap = PREFIX + "CONSTRUCT { ?x ex:q ?y . ?x ex:r ?y } WHERE { ?x ex:p ?y }"
    put(client, "all", swap)
    choices = ["default", *(f"http://example.org/{name}" for name in ("g0", "g1", "all", "view"))]
    for number in range(2):
        sources = rng.sample(choices, rng.randint(1, 3))
        rule = (
            PREFIX + f"CONSTRUCT {{ ?x ex:{rng.choice('pqr')} ?y }} WHERE {{ ?x ex:{rng.choice('pqr')} ?y }}"
        )
        put(client, f"some{number}", rule, **{"from": sources})
    page.open("/ui/store?iri=http://example.org/a")
    page.until_text("#from [data-shown]", "to")
    shown = {}
    for each in page.all(".mark-inferred"):
        line = parse_qs(urlsplit(str(each.get_attribute("href"))).query)["quad"][0]
        shown[line] = each.text
    expected = {}
    for graph in ("all", "some0", "some1"):
        address = f"http://example.org/{graph}"
        found = client.get("/store", params={"graph": address}, headers={"Accept": "application/n-triples"})
        for line in found.text.splitlines() if found.status_code == 200 else ():
            if "<http://example.org/a>" in line:
                quad = f"{line.removesuffix('.').strip()} <{address}> ."
                why = client.get("/why", params={"quad": quad}).raise_for_status().json()
                expected[quad] = "asserted and inferred: why?" if why["asserted"] else "inferred: why?"
    assert expected
    assert shown == expected
