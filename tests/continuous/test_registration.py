"""The JSON document of a registration."""

from __future__ import annotations

from typing import Any

import pytest

from quadrill.continuous.language.registration import Registration
from quadrill.continuous.queries.prepare import prepare
from quadrill.continuous.settings import EngineSettings
from quadrill.store.errors import InputError, UnsupportedError

FULL: dict[str, Any] = {
    "query": "SELECT * WHERE { ?s ?p ?o }",
    "dialect": "rspql",
    "output": "istream",
    "report": {"periodic": "10s"},
    "strict": True,
    "t0": "1970-01-01T00:00:05Z",
    "refresh": {"every": "30s"},
    "parameters": {"Name": "Ann"},
    "profile": "cqels",
    "bounds": "open-closed",
    "non_empty": True,
    "start": {"from": 7},
    "lateness": "2s",
    "memory": 1000,
    "strict_dataset": True,
    "window_default_graph": "default",
    "uncertain_filters": "auto",
    "result_iri": "http://example.org/out",
}


def test_every_member_is_read() -> None:
    registration = Registration.from_json(FULL, name="q")
    assert (registration.name, registration.report, registration.t0) == ("q", 10_000, 5000)
    assert (registration.refresh, registration.start_from, registration.lateness) == (30_000, 7, 2000)


def test_the_options_give_the_registration_again() -> None:
    registration = Registration.from_json(FULL, name="q")
    document = {"query": registration.query, "dialect": registration.dialect, **registration.options()}
    assert Registration.from_json(document, name="q") == registration
    plain = Registration.from_json({"query": "ASK {}"})
    assert plain.options() == {}
    assert Registration.from_json({"query": "ASK {}", "output": None, "start": None}) == plain


@pytest.mark.parametrize(
    "members",
    [
        {"query": ""}, {"query": 1}, {"dialect": "sql"}, {"output": "all"}, {"report": "sometimes"},
        {"report": {"periodic": "0s"}}, {"report": {"every": "1s"}}, {"t0": "soon"}, {"refresh": "often"},
        {"parameters": []}, {"profile": "sparql"}, {"bounds": "open"}, {"non_empty": "yes"}, {"start": 5},
        {"start": {"from": "soon"}}, {"lateness": "-1s"}, {"memory": 0}, {"memory": True},
        {"strict_dataset": 1}, {"uncertain_filters": "sooner"}, {"uncertain_filters": True},
        {"result_iri": "x"}, {"colour": "red"}, {"name": "a b"}, {"name": ""}, {"name": "-x"},
        {"name": "x" * 129},
    ],
    ids=str,
)  # fmt: skip
def test_a_wrong_member_is_refused(members: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        Registration.from_json({"query": "ASK {}"} | members)


def test_two_differing_names_are_refused() -> None:
    with pytest.raises(InputError, match="'a' in the body and 'b'"):
        Registration.from_json({"query": "ASK {}", "name": "a"}, name="b")
    assert Registration.from_json({"query": "ASK {}", "name": "a"}, name="a").name == "a"


def test_a_registration_is_an_object() -> None:
    with pytest.raises(InputError, match="JSON object"):
        Registration.from_json(["ASK {}"])


@pytest.mark.parametrize(
    ("window", "bounds", "works"),
    [
        ("RANGE 10s", "closed", True),
        ("RANGE 10s", "open-closed", True),
        ("RANGE 10s", "closed-open", False),
        ("RANGE 10s SLIDE 5s", "closed-open", True),
        ("RANGE 10s SLIDE 5s", "closed", False),
        ("TRIPLES 3", "closed", True),
    ],
)
def test_bounds_that_a_window_does_not_have_are_refused_and_never_ignored(
    window: str, bounds: str, works: bool
) -> None:
    text = f"SELECT ?x WHERE {{ STREAM <urn:s> [{window}] {{ ?x ?p ?o }} }}"
    registration = Registration.from_json({"query": text, "bounds": bounds})
    if works:
        assert prepare(registration, EngineSettings()).registration.bounds == bounds
    else:
        with pytest.raises(UnsupportedError, match=f"the bounds {bounds} for"):
            prepare(registration, EngineSettings())
