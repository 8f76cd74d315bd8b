"""The table of routes is true: parameters that routes take, statuses and media types of their answers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from quadrill.app import running
from quadrill.app.config import Settings
from quadrill.app.front.openapi import document
from quadrill.app.front.route import Route
from quadrill.app.front.vocabulary import DATASET, GRAPH, USING
from quadrill.app.routes import all_routes
from tests.app.routes import no_page

from .asking import message, setting_up
from .operations import Operation, operations
from .replay import RECORDED, read
from .wire import Answer, Connection

UNKNOWN = "no-such-parameter"
_TAKEN = re.compile(r"This (?:resource|operation) takes (.*)\.")
_SPARQL = frozenset({"query", "update", *DATASET})
ALSO = {
    # A form in the body may have the text of the query or update, so the check of parameters admits both.
    **dict.fromkeys(("GET /query", "POST /query", "QUERY /query", "GET /sparql", "QUERY /sparql"), _SPARQL),
    **dict.fromkeys(("POST /update", "POST /sparql"), frozenset({"query", "update", "timeout"})),
    # A text is validated with the parameters of its request, which do not change the result.
    "POST /query:validate": _SPARQL,
    "POST /update:validate": frozenset({"query", "update", "timeout", *USING}),
    # The path names the graph or the stream. A parameter that names another one has a separate error.
    **dict.fromkeys(
        (f"{method} /store/{{path}}" for method in ("GET", "PUT", "POST", "DELETE")), frozenset(GRAPH)
    ),
    **dict.fromkeys(("POST /streams/{name}", "POST /streams/{name}:heartbeat"), frozenset({"iri"})),
}
"""Parameters that a route admits although the OpenAPI document does not list them."""
UNCHECKED = frozenset(
    {
        "DELETE /stored-queries/{name}",
        *("POST /loads", "GET /jobs", "GET /jobs/{job_id}", "DELETE /jobs/{job_id}"),
        *("POST /backups", "POST /restores", "GET /processes", "DELETE /processes/{process_id}"),
        *("GET /health/live", "GET /health/ready", "GET /metrics", "GET /openapi.json"),
        *("GET /", "POST /login", "POST /logout"),
    }
)
"""Routes without parameters that ignore the query string."""
DESCRIBED = [route for route in all_routes(no_page) if route.summary]


def _ask(url: str, text: str, method: str) -> Answer:
    host = url.split("/")[2]
    name, _, port = host.rpartition(":")
    connection = Connection((name, int(port)))
    try:
        connection.send([text.replace("$HOST", host).encode("latin-1")])
        return connection.answer(method)
    finally:
        connection.close()


def _taken(url: str, route: Route, operation: Operation) -> set[str] | None:
    """Return the parameters that errors about an unknown parameter list; None if there is no such error."""
    target = operation.target + ("&" if "?" in operation.target else "?") + UNKNOWN
    found: set[str] | None = None
    for content_type in route.body or ("",):
        headers = (f"Content-Type: {content_type}",) if content_type else ()
        answer = _ask(url, message(route.method, target, *headers, body=operation.body), route.method)
        is_problem = answer.header("content-type") == "application/problem+json"
        problem = json.loads(answer.body) if is_problem else {}
        if problem.get("detail") == f"unknown parameter {UNKNOWN}":
            listed = _TAKEN.fullmatch(problem["hint"])
            assert listed is not None, problem
            found = (found or set()) | (set() if listed[1] == "none" else set(listed[1].split(", ")))
    return found


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = str(tmp_path_factory.mktemp("sinks"))
    with running.serve(Settings(data=":memory:", port=0, sink_folder=folder)) as server:
        for step in setting_up():
            _ask(server.url, step.send[0], step.methods[0])
        yield server.url


def test_routes_take_exactly_the_parameters_that_they_declare(url: str) -> None:
    by_route = {f"{each.method} {each.path}": each for each in operations()}
    wrong = {}
    for route in DESCRIBED:
        name = f"{route.method} {route.path}"
        found = _taken(url, route, by_route[name])
        expected = None if name in UNCHECKED else {*route.parameters, *ALSO.get(name, ())}
        if found != expected:
            wrong[name] = {"declared": expected, "taken": found}
    assert wrong == {}, (
        "arguments.check of the handler and the row of the route must have the same parameters"
    )


def test_exceptions_are_routes() -> None:
    names = {f"{route.method} {route.path}" for route in DESCRIBED}
    assert names >= UNCHECKED | ALSO.keys()
    assert not any(route.parameters for route in DESCRIBED if f"{route.method} {route.path}" in UNCHECKED)


# --- recorded answers -------------------------------------------------------------------------------


def _successes() -> Iterator[tuple[str, str, int, str]]:
    """Yield method, path, status and media type of each recorded success with one answer."""
    for file in sorted(RECORDED.glob("*.jsonl")):
        scenario, outcome = read(file)
        for step, answers in zip(scenario.steps, outcome.answers, strict=True):
            request = re.match(r"([A-Z]+) (/[^ ?]*)\S* HTTP/1\.[01]\r\n", step.send[0])
            status = re.fullmatch(r"HTTP/1\.[01] ([23]\d\d)", str(answers[0]["status"]))
            if request and status and len(answers) == 1 and request[1] != "OPTIONS":
                headers = answers[0].get("headers", [])
                assert isinstance(headers, list)
                types = [
                    line.removeprefix("content-type: ")
                    for line in headers
                    if line.startswith("content-type: ")
                ]
                yield request[1], request[2], int(status[1]), types[0].partition(";")[0] if types else ""


def _path_in_document(paths: dict[str, object], path: str) -> str | None:
    """Return the path of the document that a request's path matches; a literal path has precedence."""
    if path in paths:
        return path
    for each in paths:
        pattern = re.escape(each).replace(r"\{path\}", ".+").replace(r"\{name\}", "[^/:]+")
        if "{" in each and re.fullmatch(re.sub(r"\\{\w+\\}", "[^/]+", pattern), path):
            return each
    return None


def test_recorded_answers_have_declared_statuses_and_media_types() -> None:
    paths = document(DESCRIBED, "", "")["paths"]
    wrong, seen = set(), 0
    for method, path, status, media_type in _successes():
        found = _path_in_document(paths, path)
        key = {"HEAD": "get", "QUERY": "x-query"}.get(method, method.lower())
        if found is None or key not in paths[found]:
            continue
        seen += 1
        declared = paths[found][key]["responses"].get(str(status))
        if declared is None:
            wrong.add(f"{method} {found}: {status} is not declared")
        elif media_type and status < 300 and media_type not in declared.get("content", {}):
            wrong.add(f"{method} {found}: {status} with {media_type} is not declared")
    assert sorted(wrong) == []
    assert seen > 1000
