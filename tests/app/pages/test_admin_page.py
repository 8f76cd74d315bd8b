"""The admin page in a real browser: what a person sees and what the page refuses to run."""

from __future__ import annotations

import socket
import subprocess
from pathlib import Path

import httpx
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from .browser import NEEDS_BROWSER, Page
from .conftest import PREFIX, push, register, served, update

pytestmark = NEEDS_BROWSER

TOKEN = "a-token-of-this-test-only"
LIVE = PREFIX + (
    "SELECT ?sensor ?value ?room WHERE {\n"
    "  STREAM ex:readings [NOW] { ?sensor ex:value ?value }\n"
    "  GRAPH ex:rooms { ?sensor ex:in ?room }\n"
    "}"
)
ROOMS = (
    PREFIX
    + """INSERT DATA { GRAPH ex:rooms {
    ex:s1 ex:in "kitchen" . ex:s2 ex:in "<script>document.title=1</script>" } }"""
)


def _error_place(page: Page) -> str:
    """The text that is selected in the editor."""
    page.editor("#text")
    return str(
        page.driver.execute_script(
            "return document.querySelector('#editor .code').shadowRoot.getSelection().toString()"
        )
    )


def test_a_wrong_query_shows_its_error_at_the_place_and_a_right_one_shows_its_rows_live(
    page: Page, client: httpx.Client
) -> None:
    update(client, ROOMS)
    page.open("/ui/register")
    page.write("#name", "in-rooms")
    page.write("#text", LIVE.replace("[NOW]", "[NOWHERE]"))
    page.click("#register")
    page.until_text("#problem", "Line 3")
    assert page.text("#problem .excerpt").count("^") == 1
    assert page.marked("#text", ".wrong-line") == ["3"]
    assert _error_place(page) == "NOWHERE"
    assert page.marked("#text", ".cm-lintRange-error") == ["NOWHERE"]
    assert client.get("/queries").json()["queries"] == []

    page.write("#text", LIVE)
    assert page.marked("#text", ".cm-lintRange-error") == []
    page.click("#register")
    page.until(lambda: "/ui/queries/in-rooms" in page.driver.current_url, "the query's own page")
    page.until_text("#feed-state", "live")
    assert page.text("h1") == "in-rooms"
    assert page.text("#text") == LIVE

    push(client, PREFIX + "ex:s1 ex:value 21 .", 1000)
    push(client, PREFIX + "ex:s1 ex:value 22 .", 2000)
    page.until_text("#live tbody", "22")
    newest, oldest = page.text("#live tbody").splitlines()[0], page.text("#live tbody").splitlines()[-1]
    assert "insert" in newest and "22" in newest and "kitchen" in newest
    assert "1970-01-01 00:00:02" in newest
    assert "insert" in oldest and "21" in oldest
    page.until_text("#counters", "2")


def test_a_page_that_is_opened_late_shows_what_was_told_from_the_first_event_on(
    page: Page, client: httpx.Client
) -> None:
    update(client, ROOMS)
    register(client, "early", LIVE)
    for value, at in ((31, 1000), (32, 2000)):
        push(client, PREFIX + f"ex:s1 ex:value {value} .", at)
    page.open("/ui/queries/early")
    page.until_text("#live tbody", "31")
    page.until_text("#live tbody", "32")
    asked = page.driver.execute_script(
        "return performance.getEntriesByType('resource').map((each) => each.name)"
        ".filter((name) => name.includes('/results?'))"
    )
    assert asked == [] or all("from=0" in name for name in asked)


def test_a_store_without_a_mirror_is_not_asked_for_one(page: Page) -> None:
    page.open("/ui/jobs")
    page.until_text("#mirror", "no mirror")
    page.until(lambda: not page.one("#no-jobs").get_property("hidden"), "the list of jobs is read")


def test_a_script_in_the_data_is_text_on_every_page(page: Page, client: httpx.Client) -> None:
    update(client, ROOMS)
    register(client, "hostile", LIVE + "\n# </script><script>document.title='run'</script>")
    page.open("/ui/queries/hostile")
    page.until_text("#feed-state", "live")
    push(client, PREFIX + "ex:s2 ex:value '<img src=x onerror=document.title=1>' .", 1000)
    page.until_text("#live tbody", "<script>document.title=1</script>")
    assert "<img src=x onerror=document.title=1>" in page.text("#live tbody")
    page.click("#tab-answer")
    page.until_text("#answer", "<script>document.title=1</script>")
    assert "</script><script>" in page.text("#text")
    assert page.driver.title == "hostile · Quadrill"
    assert page.all("main script, main img") == []


def test_a_query_is_paused_resumed_and_dropped_from_the_list(page: Page, client: httpx.Client) -> None:
    register(client, "listed", LIVE)
    page.open("/ui/queries")
    row = 'tr[data-name="listed"]'
    page.until_text(f'{row} [data-field="state"]', "running")
    assert "Waiting:" in page.text("tr.message")
    page.click(f'{row} button[data-action="pause"]')
    page.until_text(f'{row} [data-field="state"]', "paused")
    assert client.get("/queries/listed").json()["state"] == "paused"
    page.click(f'{row} button[data-action="resume"]')
    page.until_text(f'{row} [data-field="state"]', "running")
    page.confirm(f'{row} button[data-action="drop"]')
    page.until(lambda: page.all(row) == [], "the row goes away")
    page.until_text("main", "No continuous query is registered yet")


def test_validation_shows_the_plan_and_registers_nothing(page: Page, client: httpx.Client) -> None:
    page.open("/ui/register")
    page.write("#text", LIVE)
    page.click("#validate")
    page.until_text("#outcome", "The query is right")
    assert "http://example.org/readings" in page.text("#outcome")
    assert "Plan" in page.text("#outcome")
    assert client.get("/queries").json()["queries"] == []


def test_a_query_whose_name_is_taken_can_replace_the_other(page: Page, client: httpx.Client) -> None:
    register(client, "taken", LIVE)
    page.open("/ui/register")
    page.write("#name", "taken")
    page.write("#text", LIVE.replace("[NOW]", "[RANGE 5s]"))
    page.click("#register")
    page.until_text("#problem", "409")
    page.click("#replace")
    page.until(lambda: "/ui/queries/taken" in page.driver.current_url, "the replaced query's page")
    assert "[RANGE 5s]" in client.get("/queries/taken").json()["query"]


def test_the_sparql_tab_shows_rows_terms_booleans_and_graphs(page: Page, client: httpx.Client) -> None:
    update(
        client,
        PREFIX
        + """INSERT DATA {
        ex:a ex:p 7 , "sept"@fr , "2013-01-06"^^<http://www.w3.org/2001/XMLSchema#gDay> , "<b>bold</b>" ,
             <<( ex:x ex:y "z" )>> , _:blank }""",
    )
    page.open("/ui/sparql")
    page.write("#text", PREFIX + "SELECT ?v ?none WHERE { ex:a ex:p ?v } ORDER BY ?v")
    page.click("#run")
    page.until_text("#timing", "6 rows")
    shown = page.text("#result tbody")
    for part in ("7", "sept@fr", "2013-01-06^^xsd:gDay", "<b>bold</b>", "<<( ex:x ex:y z )>>", "_:"):
        assert part in shown
    assert len(page.all("#result td.num")) == 1
    assert page.text("#downloads").split() == ["Download", "CSV", "TSV", "JSON"]

    page.write("#text", "ASK {}")
    page.click("#run")
    page.until_text("#result", "true")
    page.write("#text", PREFIX + "CONSTRUCT { ?s ex:q ?v } WHERE { ?s ex:p ?v FILTER(isNumeric(?v)) }")
    page.click("#run")
    page.until_text("#result", "http://example.org/q")


def test_the_sparql_tab_marks_errors_and_updates_the_store(page: Page, client: httpx.Client) -> None:
    page.open("/ui/sparql")
    page.write("#text", "SELECT *\nWHERE { ?s ?p }")
    page.click("#run")
    page.until_text("#problem", "Line 2")
    assert page.marked("#text", ".wrong-line") == ["2"]

    before = int(page.text("#store-version"))
    page.click("#mode-update")
    page.write("#text", PREFIX + "INSERT DATA { GRAPH ex:g { ex:a ex:b ex:c } }")
    page.click("#run")
    page.until_text("#result", "The update is done")
    assert int(page.text("#store-version")) == before + 1
    asked = client.get(
        "/query",
        params={"query": PREFIX + "ASK { GRAPH ex:g { ex:a ex:b ex:c } }"},
        headers={"Accept": "application/sparql-results+json"},
    )
    assert asked.json()["boolean"] is True


def test_a_long_answer_is_shown_in_pages(page: Page, client: httpx.Client) -> None:
    update(client, PREFIX + "INSERT DATA {" + "".join(f"ex:s ex:n {n} ." for n in range(450)) + "}")
    page.open("/ui/sparql")
    page.write("#text", PREFIX + "SELECT ?n { ?s ex:n ?n } ORDER BY ?n")
    page.click("#run")
    page.until_text("#timing", "450 rows")
    assert len(page.all("#result tbody tr")) == 200
    page.until_text("#result", "200 of 450 rows shown")
    page.click("#result button.quiet")
    page.click("#result button.quiet")
    assert len(page.all("#result tbody tr")) == 450
    assert not page.one("#result button.quiet").is_displayed()


def test_the_store_page_shows_sizes_and_commits_as_they_happen(page: Page, client: httpx.Client) -> None:
    update(client, ROOMS)
    page.open("/ui/store")
    page.until_text("#feed-state", "live")
    page.until_text("#graphs", "http://example.org/rooms")
    update(
        client,
        PREFIX + "DELETE DATA { GRAPH ex:rooms { ex:s1 ex:in 'kitchen' } };"
        "INSERT DATA { ex:a ex:b 1, 2, 3 . GRAPH ex:new { ex:a ex:b 1 } }",
    )
    page.until_text("#changes tbody", "http://example.org/new")
    assert "+0 −1 http://example.org/rooms" in page.text("#changes tbody")
    assert "+3 −0 default graph" in page.text("#changes tbody")
    rows = {row.text.split("\n")[0].split(" Browse")[0] for row in page.all("#graphs tbody tr")}
    assert {"default graph 3", "http://example.org/new 1", "http://example.org/rooms 1"} <= rows


def test_a_push_gives_a_receipt_and_a_wrong_body_its_position(page: Page, client: httpx.Client) -> None:
    register(client, "reader", LIVE)
    page.open("/ui/streams")
    page.until_text("#streams", "http://example.org/readings")
    assert "reader" in page.text("#streams tbody")
    page.write("#push-stream", "readings")
    page.write("#push-at", "5000")
    page.click("#push button[type=submit]")
    page.until_text("#receipt", "1 element accepted")
    page.until_text("#streams tbody", "1970-01-01 00:00:05")
    page.write("#push-at", "6000")
    page.write("#push-body", "PREFIX ex: <http://example.org/>\nex:s1 ex:value .")
    page.click("#push button[type=submit]")
    page.until_text("#push-problem", "Line 2")
    assert page.marked("#push-body", ".wrong-line") == ["2"]


def test_a_stream_is_declared_and_dropped_from_the_page(page: Page, client: httpx.Client) -> None:
    page.open("/ui/streams")
    page.write("#declare-iri", "http://example.org/doors")
    page.write("#declare-lateness", "2s")
    page.click("#declare button[type=submit]")
    page.until_text("#streams tbody", "http://example.org/doors")
    page.until_text("#streams tbody", "lateness 2 s")
    page.confirm("#streams button.danger")
    page.until_text("main", "No stream yet")
    assert client.get("/streams").json()["streams"] == []


def test_the_page_works_by_keyboard_alone(page: Page, client: httpx.Client) -> None:
    page.open("/ui/sparql")
    page.write("#text", "ASK {}")
    page.editor("#text").find_element(By.CSS_SELECTOR, ".cm-content").send_keys(Keys.CONTROL, Keys.ENTER)
    page.until_text("#result", "true")
    page.one("#mode-query").send_keys(Keys.ARROW_RIGHT)
    assert page.driver.switch_to.active_element.get_attribute("id") == "mode-update"
    page.until_text("#run", "Run update")
    unlabelled = page.driver.execute_script(
        "return [...document.querySelectorAll('input, select, textarea')]"
        ".filter((field) => field.labels.length === 0).map((field) => field.id)"
    )
    assert unlabelled == []


def test_a_lost_connection_is_shown_and_the_feed_resumes(driver: object, tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with served(data=str(tmp_path / "data"), port=port) as url:
        page = Page(driver, url)  # type: ignore[arg-type]
        with httpx.Client(base_url=url, timeout=30) as client:
            update(client, ROOMS)
            register(client, "kept", LIVE)
            page.open("/ui/queries/kept")
            page.until_text("#feed-state", "live")
    page.until_text("#feed-state", "reconnecting")
    page.until_text("#connection", "no connection")
    again = served(data=str(tmp_path / "data"), port=port)
    with again as url, httpx.Client(base_url=url, timeout=30) as client:
        page.until_text("#feed-state", "live")
        push(client, PREFIX + "ex:s1 ex:value 33 .", 1000)
        page.until_text("#live tbody", "33")
        page.until_text("#connection", "connected")
        page.driver.get("about:blank")


def test_a_hidden_page_closes_its_feed_and_resumes_where_it_was(page: Page, client: httpx.Client) -> None:
    def hide(hidden: bool) -> None:
        page.driver.execute_script(
            "Object.defineProperty(document, 'hidden', {value: arguments[0], configurable: true});"
            "document.dispatchEvent(new Event('visibilitychange'))",
            hidden,
        )

    def subscribers() -> int:
        return int(client.get("/queries/seen").json()["feed"]["subscribers"])

    update(client, ROOMS)
    register(client, "seen", LIVE)
    page.open("/ui/queries/seen")
    page.until_text("#feed-state", "live")
    push(client, PREFIX + "ex:s1 ex:value 41 .", 1000)
    page.until_text("#live tbody", "41")
    hide(True)
    page.until(lambda: subscribers() == 0, "nobody listens")
    push(client, PREFIX + "ex:s1 ex:value 42 .", 2000)
    hide(False)
    page.until_text("#live tbody", "42")
    assert page.text("#live tbody").count("41") == 1
    assert subscribers() == 1


def test_with_a_token_the_page_asks_for_it_and_then_works(driver: object) -> None:
    with served(token=TOKEN) as url:
        page = Page(driver, url)  # type: ignore[arg-type]
        page.open("/ui/store")
        page.until_text("h1", "Sign in")
        page.write("input[name=token]", "a-token-nobody-knows")
        page.click("main button.primary")
        page.until_text("#problem", "401")
        page.write("input[name=token]", TOKEN)
        page.click("main button.primary")
        page.until(lambda: page.driver.current_url.endswith("/ui/store"), "back at the page asked for")
        page.until_text("#feed-state", "live")
        page.until_text("header", "Sign out")
        page.click("header form button")
        page.until_text("h1", "Sign in")
        page.driver.get("about:blank")


def test_the_list_of_queries_is_shown_in_parts_and_searched(page: Page, client: httpx.Client) -> None:
    for number in range(53):
        register(client, f"q{number:02}", LIVE.replace("readings", f"readings{number % 3}"))
    page.open("/ui/queries")
    page.until(lambda: page.text("#range") == "1 to 50 of 53", "the first part")
    assert len(page.all("#queries tr[data-name]")) == 50
    assert page.text("#summary") == "53 running"
    page.click("#after")
    page.until(lambda: page.text("#queries tr[data-name] a") == "q50\nq51\nq52", "the second part")
    assert not page.one("#after").is_enabled()
    page.click("#before")
    page.until(lambda: page.text("#range") == "1 to 50 of 53", "the first part again")
    page.write("#find", "Q4")
    page.until(lambda: len(page.all("#queries tr[data-name]")) == 10, "those that are found")
    page.click('tr[data-name="q41"] [data-action="pause"]')
    page.until_text('tr[data-name="q41"]', "paused")
    page.write("#find", "")
    page.one("#find-state").send_keys("paused")
    page.until(lambda: page.text("#queries tr[data-name] a") == "q41", "the paused one")
    page.write("#find", "nothing")
    page.until(lambda: "No query has such a name" in page.text("#no-match"), "that there is none")


def test_without_queries_the_list_teaches_how_to_begin(page: Page, client: httpx.Client) -> None:
    page.open("/ui/queries")
    commands = page.text("#first-query pre").split("curl ")[1:]
    assert len(commands) == 2
    for command in commands:
        subprocess.run(["bash", "-c", f"curl -sf {command}"], check=True, timeout=60)
    page.until_text("#queries", "first")
    page.until_text("#queries", "event 1")
