"""Routes of rule sets."""

from __future__ import annotations

from ..front.route import Route
from ..front.vocabulary import JSON
from ..resources import rules

RULES: tuple[Route, ...] = (
    Route("GET", "/rules", rules.list_rules, "all rule sets", (200,), answers=JSON),
    Route("GET", "/rules/{name}", rules.get_rules, "one rule set", (200,), answers=JSON),
    Route(
        "PUT",
        "/rules/{name}",
        rules.put_rules,
        "create or replace a rule set; 202 with a job for wait=false",
        (200, 201, 202),
        ("wait", "dry_run"),
        JSON,
        JSON,
        "write",
    ),
    Route(
        "DELETE", "/rules/{name}", rules.remove_rules, "remove a rule set and its quads", (204,), role="write"
    ),
    Route("GET", "/why", rules.get_why, "why a quad is in the store", (200,), ("quad",), answers=JSON),
)
