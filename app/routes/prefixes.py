"""``/prefixes``: what graphs are written with; paths and members are those of Fuseki's service."""

from __future__ import annotations

from flask import Blueprint, Response, request

from quadrill.store.errors import NotFoundError

from ..http.errors import HttpError
from ..http.protocol import FORM, fields_of
from . import requests as incoming
from .requests import services

blueprint = Blueprint("prefixes", __name__)


@blueprint.get("/prefixes")
def get_prefixes() -> Response:
    """All prefixes, or the one with ``?prefix=``, or those of ``?uri=``."""
    incoming.known_parameters({"prefix", "uri"})
    wanted, iri = request.args.get("prefix"), request.args.get("uri")
    if wanted is not None and iri is not None:
        raise HttpError(400, "a prefix is looked up by its name or by its IRI, not by both", code="parameter")
    known = services().prefixes.all()
    if wanted is not None:
        if wanted not in known:
            raise NotFoundError(f"there is no prefix {wanted!r}", code="unknown-prefix")
        return incoming.json_response({"prefix": wanted, "uri": known[wanted]})
    return incoming.json_response(
        [{"prefix": name, "uri": known[name]} for name in sorted(known) if iri in (None, known[name])]
    )


@blueprint.post("/prefixes")
def put_prefix() -> Response:
    """Keep a prefix: ``prefix`` and ``uri`` as parameters or as form fields."""
    fields = fields_of(request.query_string)
    if request.mimetype == FORM:
        fields += fields_of(incoming.body_bytes(services().settings.max_query_bytes, "the form"))
    incoming.known_parameters({"prefix", "uri"}, [name for name, _value in fields])
    given = dict(fields)
    if len(given) != 2 or len(fields) != 2:
        raise HttpError(400, "a prefix needs the parameters prefix and uri, each once", code="parameter")
    services().prefixes.put(given["prefix"], given["uri"])
    return Response(status=204)


@blueprint.delete("/prefixes")
def remove_prefix() -> Response:
    """Forget the prefix with ``?prefix=``."""
    incoming.known_parameters({"prefix"})
    if "prefix" not in request.args:
        raise HttpError(400, "the request does not say which prefix", code="parameter")
    services().prefixes.remove(request.args["prefix"])
    return Response(status=204)
