"""Reading the tokens of an update has a limit, and an update can be ended while they are read."""

from __future__ import annotations

import pytest

from quadrill.store.errors import LimitError
from quadrill.store.hosts import AllowedHosts
from quadrill.store.sparql.guard import TextLimits
from quadrill.store.sparql.scan import query_form
from quadrill.store.sparql.update_plan import UpdateRequest, plan_update

DENSE = "INSERT DATA {" + "@" * 1_100_000


def test_a_text_of_dense_tokens_is_refused_where_it_has_too_many() -> None:
    with pytest.raises(LimitError, match="tokens"):
        plan_update(UpdateRequest(DENSE), TextLimits(quads=10), AllowedHosts())


def test_an_update_can_be_ended_while_its_tokens_are_read() -> None:
    def check() -> None:
        raise TimeoutError("enough")

    with pytest.raises(TimeoutError, match="enough"):
        plan_update(UpdateRequest(DENSE, check=check), TextLimits(), AllowedHosts())


@pytest.mark.parametrize(
    ("text", "form"),
    [
        (
            "REGISTER STREAM <urn:o> AS CONSTRUCT { ?s ?p ?o } WHERE { { SELECT * { ?s ?p ?o } } }",
            "construct",
        ),
        ("PREFIX ask: <urn:select> # ask\nSELECT * { }", "select"),
        ("nothing that is known", "select"),
    ],
)
def test_the_form_is_found_without_a_parser(text: str, form: str) -> None:
    assert query_form(text) == form
