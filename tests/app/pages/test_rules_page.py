"""Rule sets in a browser: the list, and the page of one set."""

from __future__ import annotations

import random
import threading

import httpx
import pytest

from quadrill.app.security import hash_token
from quadrill.continuous.lifecycle.rule_service import RuleService
from quadrill.store.errors import InputError
from quadrill.store.registry import RuleSetRecord, TokenRecord
from tests.app.conftest import LiveServer, Start

from .browser import NEEDS_BROWSER, Page
from .conftest import PREFIX, update

pytestmark = NEEDS_BROWSER

ADMIN, READER = "an-admin-token-of-this-test", "a-reader-token-of-this-test"
RULE = PREFIX + "CONSTRUCT { ?sensor a ex:Placed } WHERE { ?sensor ex:in ?room }"
FREE = (
    PREFIX
    + "CONSTRUCT { ?room a ex:Free } WHERE { ?room a ex:Room MINUS { ?s ex:in ?room . ?s a ex:Placed } }"
)
FILLED = PREFIX + "INSERT DATA { ex:s1 ex:in ex:kitchen . ex:s2 ex:in ex:cellar . ex:hall a ex:Room }"
INTO = "http://example.org/rooms"
ROW = 'tr[data-key="{}"]'


def put(client: httpx.Client, name: str, *rules: str, **further: object) -> None:
    """Put a rule set whose graph has its name; tests of rates need names of their own."""
    members = {"rules": list(rules), "into": f"http://example.org/{name}", **further}
    client.put(f"/rules/{name}", json=members).raise_for_status()


def sign_in(page: Page, path: str, token: str) -> None:
    """Open a view of a server with tokens."""
    page.open(path)
    page.until_text("h1", "Sign in")
    page.write("input[name=token]", token)
    page.click("main button.primary")
    page.until(lambda: page.driver.current_url.endswith(path), "the page asked for")


def figure(page: Page, name: str) -> str:
    """The value of a figure of the graph."""
    lines = page.text("#figures").splitlines()
    return lines[lines.index(name) + 1] if name in lines else ""


def test_rule_sets_are_listed_with_their_errors_and_deleted(client: httpx.Client, page: Page) -> None:
    update(client, FILLED)
    put(client, "listed", RULE)
    put(client, "small", RULE, max_inferred=0, on_budget="suspend")
    page.open("/ui/rules")
    page.until_text("#summary", "2 rule sets")
    assert page.text(ROW.format("listed") + " .badge") == "ready"
    assert page.text(ROW.format("listed") + " td:nth-child(4)") == "2"
    assert "http://example.org/listed" in page.text(ROW.format("listed"))
    assert page.text(ROW.format("small") + " .badge") == "suspended"
    assert "max_inferred" in page.text(ROW.format("small") + " .bad")
    minute = ROW.format("listed") + " td:nth-child(5)"
    page.until_text(minute, "+2 −0")
    update(client, PREFIX + "DELETE DATA { ex:s1 ex:in ex:kitchen }")
    page.until_text(minute, "+2 −1\nin 2 commits")
    page.confirm(ROW.format("small") + " button.danger")
    page.until_text("#summary", "1 rule set")
    assert [each["name"] for each in client.get("/rules").json()["rules"]] == ["listed"]
    page.one(ROW.format("listed") + " a").click()
    page.until_text("h1", "listed")


def test_page_of_a_set_shows_its_strata_and_follows_commits(client: httpx.Client, page: Page) -> None:
    update(client, FILLED)
    put(client, "strata", FREE, RULE, max_time="5s")
    page.open("/ui/rules/strata")
    page.until_text("#feed-state", "live")
    assert page.text("#state-badge") == "ready"
    strata = [each.text for each in page.all("#strata > li")]
    assert [each.splitlines()[:2] for each in strata] == [
        ["Stratum 1 1 rule", "Rule 1"],
        ["Stratum 2 1 rule", "Rule 0"],
    ]
    assert [each.text for each in page.all("#strata pre")] == [RULE, FREE]
    assert (figure(page, "Inferred triples"), figure(page, "Time limit of a commit")) == ("3", "5s")
    assert figure(page, "Cost of the last change").endswith("ms")
    page.until(lambda: figure(page, "Last minute") == "+3 −0", "the triples of the PUT")
    update(client, PREFIX + "INSERT DATA { ex:s3 ex:in ex:hall }")
    page.until(lambda: figure(page, "Last minute") == "+4 −1", "the triples of the commit")
    assert figure(page, "Inferred triples") == "3"
    assert "in 2 commits" in page.text("#figures")
    page.until(lambda: page.one("#chart svg").get_attribute("aria-label") != "", "the chart")
    assert "per second" in (page.one("#chart svg").get_attribute("aria-label") or "")


def test_inconsistencies_come_with_their_quads_and_go(client: httpx.Client, page: Page) -> None:
    owl, rdfs = "http://www.w3.org/2002/07/owl#", "http://www.w3.org/2000/01/rdf-schema#"
    prefixes = f"PREFIX owl: <{owl}> PREFIX rdfs: <{rdfs}> {PREFIX}"
    classes = "ex:Room owl:disjointWith ex:Sensor . ex:Cellar rdfs:subClassOf ex:Room ."
    update(client, f"{prefixes} INSERT DATA {{ {classes} ex:s1 a ex:Sensor , ex:Cellar }}")
    put(client, "owl", include=["owl2-rl"])
    page.open("/ui/rules/owl")
    page.until_text("#inconsistencies", "cax-dw")
    assert page.text("#inconsistencies-note") == "1 found."
    assert "owl:disjointWith" in page.text("#inconsistencies") and "(asserted)" in page.text(
        "#inconsistencies"
    )
    page.until_text("#inconsistencies .mark-inferred", "inferred: why?")
    page.click("#inconsistencies .mark-inferred")
    page.until_text("#derivations", "cax-sco")
    page.driver.back()
    page.until_text("#inconsistencies", "cax-dw")
    update(client, PREFIX + "DELETE DATA { ex:s1 a ex:Sensor }")
    page.until_text("#inconsistencies-note", "None")
    assert page.all("#inconsistencies li") == []


def test_suspended_set_is_put_again_and_deleted(client: httpx.Client, page: Page) -> None:
    update(client, FILLED)
    put(client, "rooms", RULE, max_inferred=1, on_budget="suspend")
    page.open("/ui/rules/rooms")
    page.until_text("#error", "max_inferred")
    assert page.text("#state-badge") == "suspended"
    update(client, PREFIX + "DELETE DATA { ex:s1 ex:in ex:kitchen }")
    page.confirm("#put-again")
    page.until_text("#state-badge", "ready")
    page.until(lambda: not page.one("#put-again").is_enabled(), "nothing to put again")
    assert "Its graph is complete" in page.text("#put-again-refusal")
    assert page.one("#put-again").get_attribute("aria-describedby") == "put-again-refusal"
    assert not page.one("#error").is_displayed()
    assert client.get("/rules/rooms").json()["inferred"] == 1
    put(client, "reader", RULE, **{"from": [INTO]})
    page.confirm("#delete")
    page.until_text("#problem", "the rule set reader")
    client.delete("/rules/reader").raise_for_status()
    page.confirm("#delete")
    page.until_text("h1", "Rule sets")
    assert client.get("/rules").json() == {"rules": []}


def test_set_that_is_deleted_elsewhere_or_never_was_is_said_to_be_gone(
    client: httpx.Client, page: Page
) -> None:
    put(client, "rooms", RULE)
    page.open("/ui/rules/rooms")
    page.until_text("#feed-state", "live")
    client.delete("/rules/rooms").raise_for_status()
    page.until_text("#problem", "there is no rule set rooms")
    page.open("/ui/rules/rooms")
    page.until_text("h1", "No such rule set")


def test_progress_of_a_materialisation_is_shown(
    client: httpx.Client, page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    update(client, FILLED)
    going, materialise = threading.Event(), RuleService._materialise

    def slow(service: RuleService, put: object, *further: object) -> None:
        put.progress.inferred = 1234  # type: ignore[attr-defined]
        assert going.wait(60)
        materialise(service, put, *further)  # type: ignore[arg-type]

    monkeypatch.setattr(RuleService, "_materialise", slow)
    members = {"rules": [RULE], "into": INTO, "max_inferred": 5000}
    assert client.put("/rules/rooms", params={"wait": "false"}, json=members).status_code == 202
    try:
        page.open("/ui/rules/rooms")
        page.until_text("#progress-text", "1,234 triples so far")
        assert "the limit is 5,000" in page.text("#progress-text")
        assert page.text("#state-badge") == "materialising"
        assert "All rules" in page.text("#strata") and RULE in page.text("#strata")
        assert not page.one("#delete").is_enabled() and not page.one("#put-again").is_enabled()
        assert page.text("#put-again-refusal") == "Its graph is being computed; wait for the end."
    finally:
        going.set()
    page.until_text("#state-badge", "ready")
    page.until(lambda: not page.one("#progress-panel").is_displayed(), "the end of the progress")
    assert "Stratum 1" in page.text("#strata")


def test_many_rules_are_shown_on_demand(client: httpx.Client, page: Page) -> None:
    rules = [RULE.replace("ex:Placed", f"ex:Placed{number}") for number in range(60)]
    put(client, "rooms", *rules)
    page.open("/ui/rules/rooms")
    page.until(lambda: len(page.all("#strata pre")) == 50, "the first rules")
    page.click("#all-rules")
    page.until(lambda: len(page.all("#strata pre")) == 60, "all rules")
    assert not page.one("#all-rules").is_displayed()


def reader_of(server: LiveServer) -> None:
    """Give a server a token of the role read."""
    server.services.registry.tokens.add(TokenRecord(hash_token(READER), "read", "reader", 0))


def test_role_read_sees_a_set_and_why_it_cannot_change_it(start_server: Start, driver: object) -> None:
    server = start_server(token=ADMIN)
    reader_of(server)
    server.client.headers["Authorization"] = f"Bearer {ADMIN}"
    put(server.client, "rooms", RULE)
    page = Page(driver, server.url)  # type: ignore[arg-type]
    sign_in(page, "/ui/rules/rooms", READER)
    page.until_text("#put-again-refusal", "This token has the role read; a change needs the role write.")
    assert not page.one("#delete").is_enabled() and not page.one("#put-again").is_enabled()
    assert not page.one("#delete-refusal").is_displayed(), "the same reason is shown once"
    heard = page.one("#delete-refusal").get_attribute("textContent")
    assert heard == "This token has the role read; a change needs the role write."
    page.open("/ui/rules")
    page.until_text("#refusal", "the role write")
    page.until_text("#summary", "1 rule set")
    assert not page.one(ROW.format("rooms") + " button.danger").is_enabled()
    page.driver.get("about:blank")


def test_put_that_fails_says_why(client: httpx.Client, page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    update(client, FILLED)
    put(client, "rooms", RULE, max_inferred=1, on_budget="suspend")

    def fail(*_arguments: object) -> None:
        raise InputError("the disk of the rule set is full")

    page.open("/ui/rules/rooms")
    page.until_text("#state-badge", "suspended")
    monkeypatch.setattr(RuleService, "_materialise", fail)
    page.confirm("#put-again")
    page.until_text("#problem", "The rule set was not put")
    assert "the disk of the rule set is full" in page.text("#problem")


def test_set_that_could_not_be_loaded_shows_the_error_and_is_put_again(
    start_server: Start, driver: object
) -> None:
    server = start_server()
    members = {"into": INTO, "rules": [RULE], "max_inferred": 10, "max_time": "10s", "on_budget": "reject"}
    record = RuleSetRecord("rooms", members, None, "failed", "a rule is of a later version")
    server.services.rules._failed["rooms"] = record
    page = Page(driver, server.url)  # type: ignore[arg-type]
    page.open("/ui/rules/rooms")
    page.until_text("#error", "a rule is of a later version")
    assert page.text("#state-badge") == "failed"
    page.confirm("#put-again")
    page.until_text("#state-badge", "ready")
    assert not page.one("#error").is_displayed()
    page.driver.get("about:blank")


def test_inconsistencies_are_searched_once_per_version(client: httpx.Client, page: Page) -> None:
    def asked(path: str) -> int:
        count = """const names = performance.getEntriesByType('resource').map(({ name }) => name);
            return names.filter((name) => name.endsWith(arguments[0])).length"""
        return int(page.driver.execute_script(count, path))

    put(client, "owl", include=["owl2-rl"])
    page.open("/ui/rules/owl")
    page.until_text("#inconsistencies-note", "None")
    before = asked("/rules")
    page.until(lambda: asked("/rules") > before + 2, "further looks")
    assert asked("/rules/owl") == 1
    update(client, FILLED)
    page.until(lambda: asked("/rules/owl") == 2, "a search after the commit")


def test_counts_of_a_minute_are_those_of_its_commits(page: Page) -> None:
    rng = random.Random(7)
    commits = [(rng.randrange(1_000_000, 1_200_000), rng.randrange(5), rng.randrange(5)) for _ in range(500)]
    page.open("/ui/queries")
    end_s = max(at for at, _, _ in commits) // 1000 + 3
    found = page.driver.execute_async_script(
        """const [commits, endMs, done] = arguments;
        import('/ui/static/rules/minute.js').then(({ LastMinute }) => {
          const minute = new LastMinute();
          for (const [atMs, added, removed] of commits) minute.add(atMs, { added, removed });
          minute.moveTo(endMs);
          done([minute.total(), minute.samples.map(({ values }) => values), minute.seconds.size]);
        });""",
        commits,
        end_s * 1000,
    )
    kept = [each for each in commits if end_s - 60 < each[0] // 1000 <= end_s]
    total, samples, seconds = found
    assert total == {
        "added": sum(added for _, added, _ in kept),
        "removed": sum(removed for _, _, removed in kept),
        "commits": sum(added + removed > 0 for _, added, removed in kept),
    }
    assert seconds <= 60
    for number, (added_rate, removed_rate) in enumerate(samples):
        until = end_s - 60 + 5 * (number + 1)
        inside = [each for each in kept if until - 5 < each[0] // 1000 <= until]
        assert added_rate == sum(added for _, added, _ in inside) / 5
        assert removed_rate == sum(removed for _, _, removed in inside) / 5
