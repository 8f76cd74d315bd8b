"""Shapes in a browser: the list, the page of one name, the try-out box, and refused updates."""

from __future__ import annotations

import httpx
import pytest

from quadrill.app.security import hash_token
from quadrill.store.registry import TokenRecord
from tests.app.conftest import Start

from .browser import NEEDS_BROWSER, Page
from .conftest import PREFIX, put_shapes, update
from .looks import NARROW, looks_well, show_as
from .test_rules_page import ADMIN, READER, sign_in

pytestmark = NEEDS_BROWSER

ROW = 'tr[data-key="{}"]'
SHAPES = """PREFIX sh: <http://www.w3.org/ns/shacl#> PREFIX ex: <http://example.org/>
ex:PersonShape a sh:NodeShape ; sh:targetClass ex:Person ;
  sh:property [ sh:path ex:name ; sh:minCount 1 ; sh:message "a person has a name" ] ;
  sh:property [ sh:path ( ex:knows [ sh:inversePath ex:likes ] ) ; sh:in ( ex:a "b c" ) ;
    sh:severity sh:Warning ; sh:message "an unknown friend" ] .
"""
PEOPLE = PREFIX + "INSERT DATA { ex:ann a ex:Person . ex:bob a ex:Person ; ex:name 'Bob' }"


def rows(page: Page, place: str = "#results") -> list[list[str]]:
    """The cells of a table of results."""
    cells = """return [...document.querySelectorAll(arguments[0] + ' tbody tr')]
        .map((row) => [...row.cells].map((cell) => cell.textContent))"""
    found: list[list[str]] = page.driver.execute_script(cells, place)
    return found


def test_shapes_are_listed_with_results_by_severity_and_deleted(client: httpx.Client, page: Page) -> None:
    update(client, PEOPLE + "; " + PREFIX + "INSERT DATA { ex:ann ex:knows ex:c . ex:d ex:likes ex:c }")
    put_shapes(client, "people", SHAPES, mode="reject", data="default")
    put_shapes(client, "small", SHAPES, max_results=1)
    page.open("/ui/shapes")
    page.until_text("#summary", "2 sets of shapes")
    assert page.text(ROW.format("people") + " td:nth-child(2)") == "ready"
    assert page.text(ROW.format("people") + " td:nth-child(3)").startswith("reject")
    assert [each.text for each in page.all(ROW.format("people") + " .chips .badge")] == [
        "1 violation",
        "1 warning",
    ]
    assert page.text(ROW.format("people") + " td:nth-child(5)").endswith("ms")
    assert "checks the default graph" in page.text(ROW.format("people"))
    assert page.text(ROW.format("small") + " td:nth-child(2)").startswith("failed")
    assert "max_results" in page.text(ROW.format("small") + " .bad")
    assert page.text(ROW.format("small") + " td:nth-child(4)") == "unknown"
    page.confirm(ROW.format("small") + " button.danger")
    page.until_text("#summary", "1 set of shapes")
    assert [each["name"] for each in client.get("/shapes").json()["shapes"]] == ["people"]
    page.one(ROW.format("people") + " a").click()
    page.until_text("h1", "people")


def test_results_change_in_place_and_a_click_shows_the_shape(client: httpx.Client, page: Page) -> None:
    update(client, PEOPLE + "; " + PREFIX + "INSERT DATA { ex:cid a ex:Person }")
    put_shapes(client, "people", SHAPES, max_time="5s")
    page.open("/ui/shapes/people")
    page.until_text("#feed-state", "live")
    page.until(lambda: len(rows(page)) == 2, "the results")
    severity, focus, path, value, message, constraint, _ = next(row for row in rows(page) if "ann" in row[1])
    assert (severity, focus, value) == ("Violation", "<http://example.org/ann>", "")
    assert path == "<http://example.org/name>" and message == "a person has a name"
    assert constraint == "MinCount"
    assert "5s" in page.text("#figures") and "watch" in page.text("#figures")
    page.driver.execute_script("document.querySelector('#results tbody tr').kept = true")
    kept = "return [...document.querySelectorAll('#results tbody tr')].some((row) => row.kept)"
    update(
        client,
        PREFIX + "INSERT DATA { ex:dan a ex:Person ; ex:name 'Dan' ; ex:knows ex:c . ex:e ex:likes ex:c }",
    )
    page.until(lambda: len(rows(page)) == 3, "a further result")
    assert [each.text for each in page.all("#severities .badge")] == ["2 violations", "1 warning"]
    assert page.driver.execute_script(kept), "rows stay where they are"
    friend = next(row for row in rows(page) if "dan" in row[1])
    assert friend[2] == "<http://example.org/knows>/^<http://example.org/likes>"
    assert friend[3] == "<http://example.org/e>"
    [shown] = page.all("#results tr.fresh")
    shown.find_element("css selector", "td:nth-child(5)").click()
    page.until_text("#shape mark", "sh:severity sh:Warning")
    assert 'sh:in ( <http://example.org/a> "b c" )' in page.text("#shape mark")
    assert "sh:inversePath <http://example.org/likes>" in page.text("#shape mark")
    assert "a person has a name" in page.text("#shape pre")
    assert "a person has a name" not in page.text("#shape mark")
    assert shown.find_element("css selector", "button").get_attribute("aria-pressed") == "true"
    update(
        client,
        PREFIX
        + "INSERT DATA { ex:ann ex:name 'Ann' . ex:cid ex:name 'Cid' } ; "
        + PREFIX
        + "DELETE DATA { ex:e ex:likes ex:c }",
    )
    page.until(lambda: rows(page) == [], "the end of all results")
    assert page.text("#no-results") == "The data conforms: no result."


def test_shape_of_a_result_is_shown_by_the_keyboard_and_its_focus_node_leads_to_the_store(
    client: httpx.Client, page: Page
) -> None:
    update(client, PEOPLE)
    put_shapes(client, "people", SHAPES)
    page.open("/ui/shapes/people")
    page.until(lambda: len(rows(page)) == 1, "the result")
    page.one("#results button").send_keys("\n")
    page.until_text("#shape mark", "sh:minCount 1")
    page.one("#results a.term.iri").click()
    page.until_text("h1", "http://example.org/ann")


def test_replaced_shapes_and_failed_shapes_show_what_holds_now(client: httpx.Client, page: Page) -> None:
    update(client, PEOPLE)
    put_shapes(client, "people", SHAPES)
    page.open("/ui/shapes/people")
    page.until(lambda: len(rows(page)) == 1, "the result")
    put_shapes(client, "people", SHAPES.replace("a person has a name", "no name"))
    page.until(lambda: [row[4] for row in rows(page)] == ["no name"], "the new message")
    page.click("#whole summary")
    page.until_text("#text", '"no name"')
    put_shapes(client, "people", SHAPES, max_results=1)
    page.until_text("#figures", "1")
    update(client, PREFIX + "INSERT DATA { ex:eve a ex:Person }")
    page.until_text("#error", "max_results")
    assert page.text("#state-badge") == "failed" and rows(page) == []
    assert not page.one("#no-results").is_displayed()
    client.delete("/shapes/people").raise_for_status()
    page.until_text("#problem", "there are no shapes people")


def test_at_most_1000_results_are_shown_and_the_page_says_so(client: httpx.Client, page: Page) -> None:
    update(client, PREFIX + "INSERT DATA { " + " ".join(f"ex:p{n} a ex:Person ." for n in range(1200)) + " }")
    put_shapes(client, "people", SHAPES)
    page.open("/ui/shapes/people")
    page.until_text("#results-note", "The first 1,000 of 1,200 results are shown.")
    assert len(rows(page)) == 1000
    assert page.text("#severities") == "1,200 violations"


@pytest.mark.parametrize("width", [None, NARROW])
def test_tried_data_shows_its_results_or_the_place_of_the_fault(
    client: httpx.Client, page: Page, width: int | None
) -> None:
    update(client, PEOPLE)
    put_shapes(client, "people", SHAPES)
    if width is not None:
        show_as(page, width=width)
    try:
        page.open("/ui/shapes/people")
        page.until(lambda: len(rows(page)) == 1, "the result")
        page.edit("#try-body", PREFIX + "ex:ann ex:knows ex:c .\nex:eve a ex:Person .")
        page.click("#validate")
        page.until_text("#tried", "1 result.")
        assert [row[1] for row in rows(page, "#try-results")] == ["<http://example.org/eve>"]
        page.click("#try-results button")
        page.until_text("#shape mark", "sh:minCount 1")
        page.edit("#try-body", PREFIX + "ex:ann ex:name 'Ann' .")
        page.click('[name="with"][value="data"]')
        page.click("#validate")
        page.until_text("#tried", "The data conforms: no result.")
        assert rows(page, "#try-results") == []
        page.edit("#try-body", PREFIX + "ex:ann ex:name x:Ann .")
        page.click("#validate")
        page.until_text("#try-problem", "Line 2, column 16")
        assert "prefix" in page.text("#try-problem")
    finally:
        show_as(page)
    assert client.get("/shapes/people").json()["results"] == 1, "nothing is stored"


def test_paths_of_a_report_have_the_texts_of_the_feed(client: httpx.Client, page: Page) -> None:
    """The page writes the paths of an RDF report, the server those of the rows."""
    paths = [
        "[ sh:zeroOrMorePath [ sh:inversePath ex:a ] ]",
        "[ sh:inversePath [ sh:oneOrMorePath ex:a ] ]",
        "[ sh:inversePath ( ex:a ex:b ) ]",
        "( [ sh:alternativePath ( ex:a ( ex:b ex:c ) [ sh:zeroOrOnePath ex:a ] ) ] [ sh:inversePath ex:a ] )",
        "[ sh:oneOrMorePath [ sh:zeroOrOnePath ( ex:a ex:b ) ] ]",
    ]
    properties = " , ".join(f"[ sh:path {path} ; sh:minCount 5 ]" for path in paths)
    prefixes = "PREFIX sh: <http://www.w3.org/ns/shacl#> PREFIX ex: <http://example.org/>"
    put_shapes(
        client, "paths", f"{prefixes} ex:S a sh:NodeShape ; sh:targetNode ex:x ; sh:property {properties} ."
    )
    answer = client.get("/shapes/paths/results").json()
    wanted = {binding["path"]["value"] for binding in answer["results"]["bindings"]}
    assert len(wanted) == len(paths)
    page.open("/ui/shapes/paths")
    page.until(lambda: len(rows(page)) == len(paths), "the results")
    assert {row[2] for row in rows(page)} == wanted


def test_turtle_of_the_server_is_read_as_its_n_triples_are(client: httpx.Client, page: Page) -> None:
    texts = [
        r'ex:a ex:p "a\n\"b\" \\ €\t" , "x"@en-GB , "5"^^ex:t , 5 , 2.5 , -1e3 , true , "" .',
        r"ex:a%20b a ex:1.2 ; ex:x\.y ex:z-1 , _:b.1 , <urn:a\u00e9> , ex: .",
        '_:b.1 ex:p _:x . ex:b ex:p """long "quoted" text""" .',
    ]
    graph = "http://example.org/texts"
    headers = {"Content-Type": "text/turtle"}
    body = PREFIX + "\n".join(texts)
    client.put("/store", params={"graph": graph}, content=body, headers=headers).raise_for_status()
    page.open("/ui/queries")
    read = page.driver.execute_async_script(
        """const done = arguments[arguments.length - 1];
        const path = '/store?graph=http://example.org/texts';
        const ask = (Accept) => fetch(path, { headers: { Accept }, cache: 'no-store' });
        const get = async (type) => (await ask(type)).text();
        const plain = (triples, text) => triples.map((triple) => triple.map(text).join(' ')).sort();
        (async () => {
          const { triplesOf } = await import('/ui/static/shapes/turtle.js');
          const { quadsOf } = await import('/ui/static/feeds/turtle.js');
          const { termText } = await import('/ui/static/base/terms.js');
          const turtle = triplesOf(await get('text/turtle'));
          const lines = quadsOf(await get('application/n-triples'));
          done([plain(turtle, termText), plain(lines, termText)]);
        })().catch((error) => done([String(error), []]));"""
    )
    assert read[0] == read[1] and len(read[0]) == 15


def test_text_of_a_shape_ends_where_blank_nodes_contain_themselves_or_each_other_twice(page: Page) -> None:
    first, rest, end = "rdf:first", "rdf:rest", "rdf:nil"
    doubled = "".join(
        f"_:d{n} {first} _:d{n + 1} ; {rest} _:r{n} .\n_:r{n} {first} _:d{n + 1} ; {rest} {end} .\n"
        for n in range(60)
    )
    chain = "".join(f"_:c{n} ex:p _:c{n + 1} .\n" for n in range(20_000))
    turtle = f"""@prefix rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#> .
@prefix ex: <http://example.org/> .
ex:Loop ex:p _:a .
_:a ex:p _:b , _:l .
_:b ex:p _:a .
_:l {first} _:l ; {rest} {end} .
ex:Doubled ex:p _:d0 .
ex:Chain ex:p _:c0 .
{doubled}{chain}"""
    page.open("/ui/queries")
    texts = page.driver.execute_async_script(
        """const [turtle, done] = arguments;
        (async () => {
          const { triplesOf } = await import('/ui/static/shapes/turtle.js');
          const { Graph } = await import('/ui/static/shapes/graph.js');
          const { shapeNode } = await import('/ui/static/shapes/shape_text.js');
          const { append } = await import('/ui/static/base/dom.js');
          const graph = new Graph(triplesOf(turtle));
          const text = (type, value) => append(document.createElement('div'),
            shapeNode(graph, { type, value }, { ex: 'http://example.org/' })).textContent;
          const named = ['Loop', 'Doubled', 'Chain'].map((name) => text('uri', 'http://example.org/' + name));
          done([...named, text('bnode', 'c19999'), text('bnode', 'b')]);
        })().catch((error) => done([String(error)]));""",
        turtle,
    )
    loop, doubled, chain, deep, inner = texts
    loop_text = "ex:Loop ex:p [\n    ex:p [\n      ex:p _:a\n    ] , ( _:l )\n  ] .\n"
    assert loop == inner == f"PREFIX ex: <http://example.org/>\n\n{loop_text}"
    for each in (doubled, chain):
        assert len(each) < 20_200 and each.endswith("the shapes graph below has all of it.")
    assert "_:c20000" in deep


def test_refused_update_shows_its_report_where_the_error_stands(client: httpx.Client, page: Page) -> None:
    put_shapes(client, "people", SHAPES, mode="reject")
    page.open("/ui/sparql")
    page.click("#mode-update")
    page.edit("#text", PREFIX + "INSERT DATA { ex:ann a ex:Person . ex:eve a ex:Person }")
    page.click("#run")
    page.until_text("#problem .detail", "the change violates the shapes people")
    page.until(lambda: len(rows(page, "#problem")) == 2, "the report")
    assert {row[1] for row in rows(page, "#problem")} == {
        "<http://example.org/ann>",
        "<http://example.org/eve>",
    }
    assert {row[4] for row in rows(page, "#problem")} == {"a person has a name"}
    found = looks_well(page, "refused-update")
    assert not found, "\n".join(found)
    page.click("#problem .report-foot a")
    page.until_text("h1", "people")


def test_role_read_sees_shapes_and_why_it_cannot_delete_them(start_server: Start, driver: object) -> None:
    server = start_server(token=ADMIN)
    server.services.registry.tokens.add(TokenRecord(hash_token(READER), "read", "reader", 0))
    server.client.headers["Authorization"] = f"Bearer {ADMIN}"
    put_shapes(server.client, "people", SHAPES)
    page = Page(driver, server.url)  # type: ignore[arg-type]
    sign_in(page, "/ui/shapes/people", READER)
    page.until_text("#delete-refusal", "This token has the role read; a change needs the role write.")
    assert not page.one("#delete").is_enabled()
    page.click("#validate")
    page.until_text("#tried", "1 result.")
    page.open("/ui/shapes")
    page.until_text("#refusal", "the role write")
    page.until_text("#summary", "1 set of shapes")
    assert not page.one(ROW.format("people") + " button.danger").is_enabled()
    page.driver.get("about:blank")


def test_name_that_no_shapes_have_is_said(client: httpx.Client, page: Page) -> None:
    page.open("/ui/shapes/none")
    page.until_text("h1", "No such shapes")
    assert client.get("/ui/shapes/none").status_code == 404
