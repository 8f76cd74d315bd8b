"""The OpenAPI document describes exactly the routes that there are."""

from __future__ import annotations

import re

from flask import Flask

from quadrill.app import openapi
from quadrill.app.application import create_app
from quadrill.app.wiring import Services
from tests.app.conftest import LiveServer

PAGE = ("/", "/ui/", "/login")
IMPLIED = {"HEAD", "OPTIONS"}


def routes(app: Flask) -> set[tuple[str, str]]:
    found = set()
    for rule in app.url_map.iter_rules():
        if rule.endpoint.startswith("admin."):
            continue
        path = re.sub(r"<(?:[a-z]+:)?([a-z_]+)>", r"{\1}", rule.rule)
        found |= {(method.lower(), path) for method in (rule.methods or set()) - IMPLIED}
    return found


def test_every_route_is_described_and_every_description_is_a_route(server: LiveServer) -> None:
    services: Services = server.services
    app = create_app(services.settings, services=services)
    described = {(operation.method, operation.path) for operation in openapi.OPERATIONS}
    assert described == routes(app)
    assert len(openapi.OPERATIONS) == len(described)


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
