"""Rule sets in a browser."""

from __future__ import annotations

import httpx

from .browser import NEEDS_BROWSER, Page
from .conftest import PREFIX, update

pytestmark = NEEDS_BROWSER

RULE = PREFIX + "CONSTRUCT { ?sensor a ex:Placed } WHERE { ?sensor ex:in ?room }"
ROW = 'tr[data-key="{}"]'


def test_rule_sets_are_listed_with_their_errors_and_deleted(client: httpx.Client, page: Page) -> None:
    update(client, PREFIX + 'INSERT DATA { ex:s1 ex:in "kitchen" . ex:s2 ex:in "cellar" }')
    for name, budget in (("rooms", {}), ("small", {"max_inferred": 0, "on_budget": "suspend"})):
        members = {"rules": [RULE], "into": f"http://example.org/{name}", **budget}
        client.put(f"/rules/{name}", json=members).raise_for_status()
    page.open("/ui/rules")
    page.until_text("#summary", "2 rule sets")
    assert page.text(ROW.format("rooms") + " .badge") == "ready"
    assert page.text(ROW.format("rooms") + " td:nth-child(4)") == "2"
    assert "http://example.org/rooms" in page.text(ROW.format("rooms"))
    assert page.text(ROW.format("small") + " .badge") == "suspended"
    assert "max_inferred" in page.text(ROW.format("small") + " .bad")
    page.driver.execute_script("window.confirm = () => true")
    page.one(ROW.format("small") + " button").click()
    page.until_text("#summary", "1 rule set")
    assert [each["name"] for each in client.get("/rules").json()["rules"]] == ["rooms"]
