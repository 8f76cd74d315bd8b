"""``:map`` by role: the role read may use the mapping that a stream has, and no other one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from quadrill.app.security import hash_token
from quadrill.store.registry import TokenRecord
from tests.app.conftest import LiveServer, Start, problem_of

IRI = "http://e/readings"
TEXT = "CONSTRUCT { [] <urn:v> ?a , ?mapping , ?mapping_name , ?records } WHERE {}"
OTHER = {"construct": "CONSTRUCT { [] <urn:other> ?a } WHERE {}"}
ADMIN = "t" * 32
NAMED: list[tuple[str, dict[str, str]]] = [
    ("/streams:map", {"iri": IRI}),
    ("/streams/readings:map", {}),
    ("/streams:map", {"iri": "readings"}),
]
JSON_TYPES = [
    "application/json",
    "application/json; charset=utf-8",
    "Application/JSON",
    "",
    "application/x-ndjson",
]


@pytest.fixture
def guarded(start_server: Start) -> LiveServer:
    live = start_server(token=ADMIN)
    for role in ("read", "push", "write"):
        live.services.registry.tokens.add(TokenRecord(hash_token(role * 8), role, role))
    declared = {"iri": IRI, "mapping": {"construct": TEXT}}
    assert live.client.put("/streams", json=declared, headers=bearer("admin")).status_code == 201
    return live


def bearer(role: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {ADMIN if role == 'admin' else role * 8}"}


def ask(live: LiveServer, role: str, path: str, parameters: dict[str, str], body: Any, kind: str = "") -> Any:
    content = body if isinstance(body, str) else json.dumps(body)
    headers = bearer(role) | ({"Content-Type": kind} if kind else {})
    return live.client.post(path, params=parameters, content=content, headers=headers)


@pytest.mark.parametrize("kind", JSON_TYPES)
def test_a_mapping_beside_the_name_of_a_stream_is_refused(guarded: LiveServer, kind: str) -> None:
    bodies: list[Any] = [
        {"mapping": OTHER, "records": [{"a": 1}]},
        {"records": [{"a": 1}], "mapping": OTHER},
        {"mapping": OTHER, "a": 1},
        {"mapping": {"jsonld": {"@context": {}}}, "records": []},
        '\n {"m\\u0061pping": {"construct": "CONSTRUCT"}}',
    ]
    for path, parameters in NAMED:
        for body in bodies:
            for role, status, code in (
                ("read", 403, "forbidden"),
                ("push", 403, "forbidden"),
                ("write", 400, "parameter"),
                ("admin", 400, "parameter"),
            ):
                answer = ask(guarded, role, path, parameters, body, kind)
                assert problem_of(answer, status)["code"] == code, (path, body, role)


@pytest.mark.parametrize("role", ["read", "write", "admin"])
def test_a_record_may_have_a_field_mapping(guarded: LiveServer, role: str) -> None:
    for path, parameters in NAMED:
        for body in (
            {"mapping": "x", "a": 1},
            {"mapping": None, "records": [1]},
            {"mapping": {"name": "x"}, "records": "y"},
            {"mapping": ["construct"], "a": 1},
            [{"mapping": OTHER, "a": 1}],
            '{"a": 1}\n{"mapping": {"construct": "x"}, "a": 2}',
        ):
            kind = "application/x-ndjson" if isinstance(body, str) else "application/json"
            answer = ask(guarded, role, path, parameters, body, kind)
            assert answer.status_code == 200, (body, answer.text)
            assert "urn:v" in answer.text and "urn:other" not in answer.text
        table = ask(guarded, role, path, parameters, "mapping,a\r\nconstruct,2\r\n", "text/csv")
        assert table.status_code == 200 and '"construct"' in table.text


@pytest.mark.parametrize("kind", [*JSON_TYPES, "text/plain"])
def test_a_mapping_without_a_stream_needs_the_role_write(guarded: LiveServer, kind: str) -> None:
    body = {"mapping": OTHER, "records": [{"a": 1}]}
    for path, parameters in (("/streams:map", {}), ("/streams:map", {"iri": ""})):
        for role in ("read", "push"):
            answer = ask(guarded, role, path, parameters, body, kind)
            assert answer.status_code != 200 and "urn:other" not in answer.text
        assert problem_of(ask(guarded, "read", "/streams:map", {}, body, kind), 403)["code"] == "forbidden"
        answer = ask(guarded, "write", "/streams:map", {}, body, kind)
        assert answer.status_code == 200 and "urn:other" in answer.text
    for given in ({"mapping": json.dumps(OTHER)}, {"mapping": "1", "iri": IRI}):
        answer = ask(guarded, "read", "/streams:map", given, {"a": 1}, kind)
        assert problem_of(answer, 400)["code"] == "parameter"
