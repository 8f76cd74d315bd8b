"""``/openapi.json``: the HTTP interface described for machines."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from flask import Blueprint, Response

from .. import openapi
from ..security import PUBLIC, needs
from . import requests as incoming

blueprint = Blueprint("openapi", __name__)


@blueprint.get("/openapi.json")
@needs(PUBLIC)
def document() -> Response:
    """The OpenAPI document of this server."""
    try:
        number = version("quadrill")
    except PackageNotFoundError:
        number = "0"
    return incoming.json_response(openapi.document(number, incoming.base_url()))
