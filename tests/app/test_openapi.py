"""The OpenAPI document is printed from the table of routes."""

from __future__ import annotations

import re

from quadrill.app.routes import all_routes
from tests.app.conftest import LiveServer
from tests.app.routes import no_page


def test_rows_are_unique_and_those_without_a_summary_are_of_the_page_or_of_websockets() -> None:
    table = all_routes(no_page)
    assert len({(route.method, route.path, route.websocket) for route in table}) == len(table)
    for route in table:
        assert route.summary or route.websocket or route.path.startswith(("/ui/", "/login")), route.path


def test_the_document_is_served_and_well_formed(server: LiveServer) -> None:
    document = server.client.get("/openapi.json").json()
    assert document["openapi"].startswith("3.1")
    assert document["paths"]["/queries/{name}"]["get"]["parameters"][0]["name"] == "name"
    for path, operations in document["paths"].items():
        for operation in operations.values():
            assert operation["summary"], path
            assert "default" in operation["responses"]
            named = {parameter["name"] for parameter in operation["parameters"] if parameter["in"] == "path"}
            assert named == set(re.findall(r"{(\w+)}", path))
