"""``/prefixes``: the prefixes for writing graphs, with the same interface as Fuseki's prefix service."""

from __future__ import annotations

from quadrill.store.errors import NotFoundError

from ..http.answers import WholeAnswer, json_answer, no_content
from ..http.errors import HttpError
from ..http.forms import fields_of
from ..http.parameters import check_known
from ..http.protocol import FORM
from ..http.request import Request
from ..wiring import Services


def get_prefixes(services: Services, request: Request) -> WholeAnswer:
    """Return all prefixes, the prefix ``?prefix=``, or the prefixes of the IRI ``?uri=``."""
    request.arguments.check({"prefix", "uri"})
    wanted, iri = request.arguments.get("prefix"), request.arguments.get("uri")
    if wanted is not None and iri is not None:
        raise HttpError(400, "a prefix is looked up by its name or by its IRI, not by both", code="parameter")
    known = services.prefixes.all()
    if wanted is not None:
        if wanted not in known:
            raise NotFoundError(f"there is no prefix {wanted!r}", code="unknown-prefix")
        return json_answer({"prefix": wanted, "uri": known[wanted]})
    return json_answer(
        [{"prefix": name, "uri": known[name]} for name in sorted(known) if iri in (None, known[name])]
    )


def put_prefix(services: Services, request: Request) -> WholeAnswer:
    """Store a prefix; ``prefix`` and ``uri`` are query-string parameters or form fields."""
    fields = fields_of(request.query_string)
    if request.media_type == FORM:
        fields += fields_of(request.read(services.settings.max_query_bytes, "the form"))
    check_known({"prefix", "uri"}, [name for name, _value in fields])
    given = dict(fields)
    if len(given) != 2 or len(fields) != 2:
        raise HttpError(400, "a prefix needs the parameters prefix and uri, each once", code="parameter")
    services.prefixes.put(given["prefix"], given["uri"])
    return no_content()


def remove_prefix(services: Services, request: Request) -> WholeAnswer:
    """Delete the prefix ``?prefix=``."""
    request.arguments.check({"prefix"})
    prefix = request.arguments.get("prefix")
    if prefix is None:
        raise HttpError(400, "the request does not say which prefix", code="parameter")
    services.prefixes.remove(prefix)
    return no_content()
