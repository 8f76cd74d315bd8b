"""``/sources`` and ``/sinks``: where streams come from, and where answers go."""

from __future__ import annotations

from flask import Blueprint, Request, Response, request

from quadrill.store.registry import ConnectorRole

from ..connectors.catalogue import described_kinds
from ..http.errors import HttpError
from ..security import PUBLIC, needs
from . import requests as incoming
from .requests import services

blueprint = Blueprint("connectors", __name__)


def _add(which: str, role: ConnectorRole) -> None:
    """The operations that sources and sinks have in common."""

    def all_of_them() -> Response:
        """All of them."""
        incoming.known_parameters(())
        return incoming.json_response({which: services().connectors.all(role)})

    def kinds() -> Response:
        """What can be declared: each kind with its members."""
        incoming.known_parameters(())
        return incoming.json_response({"kinds": described_kinds(role)})

    def one(name: str) -> Response:
        """Its declaration without secrets, state, position, rate, lag, error."""
        incoming.known_parameters(())
        return incoming.json_response(services().connectors.get(role, checked(name)))

    def dead_letters(name: str) -> Response:
        """What it could not read or deliver, oldest first."""
        incoming.known_parameters(())
        return incoming.json_response(
            {"letters": services().connectors.dead_letters(role, checked(name)).list()}
        )

    @needs("admin")
    def drop_dead_letters(name: str) -> Response:
        """Forget them all."""
        incoming.known_parameters(())
        dropped = services().connectors.dead_letters(role, checked(name)).clear()
        return incoming.json_response({"dropped": dropped})

    @needs("admin")
    def put(name: str) -> Response:
        """Declare or change one; it is started. With ``?dry_run=true`` only what that would do."""
        incoming.known_parameters({"dry_run"})
        members = incoming.json_body(services().settings.max_query_bytes, "the declaration")
        given = members.pop("name", name)
        if given != name:
            raise HttpError(400, f"the declaration has two names, {name} and {given!r}", code="member")
        if incoming.flag("dry_run"):
            return incoming.json_response(
                {"change": services().connectors.compare(role, checked(name), members)}
            )
        description, created = services().connectors.put(role, checked(name), members)
        headers = {"Location": f"{incoming.base_url()}{which}/{name}"} if created else None
        return incoming.json_response(description, 201 if created else 200, headers)

    @needs("admin")
    def start(name: str) -> Response:
        """Let one run; also after it has failed."""
        incoming.known_parameters(())
        return incoming.json_response(services().connectors.set_wanted(role, checked(name), True))

    @needs("admin")
    def stop(name: str) -> Response:
        """Stop one; it stays stopped over restarts."""
        incoming.known_parameters(())
        return incoming.json_response(services().connectors.set_wanted(role, checked(name), False))

    @needs("admin")
    def drop(name: str) -> Response:
        """Stop one and forget it."""
        incoming.known_parameters(())
        services().connectors.drop(role, checked(name))
        return Response(status=204)

    def checked(name: str) -> str:
        return incoming.check_name(name, f"the {role} name")

    path = f"/{which}/<part:name>"
    for rule, method, view in (
        (f"/{which}", "GET", all_of_them),
        (f"/{which}:kinds", "GET", kinds),
        (path, "GET", one),
        (f"{path}/dead-letters", "GET", dead_letters),
        (f"{path}/dead-letters", "DELETE", drop_dead_letters),
        (path, "PUT", put),
        (f"{path}:start", "POST", start),
        (f"{path}:stop", "POST", stop),
        (path, "DELETE", drop),
    ):
        blueprint.add_url_rule(rule, f"{view.__name__}_{which}", view, methods=[method])


_add("sources", "source")
_add("sinks", "sink")


def _role_of_sender(asked: Request) -> str:
    """A sender who signs what it sends needs no token."""
    name = (asked.view_args or {}).get("name", "")
    return PUBLIC if services().connectors.has_secret(name) else "push"


@blueprint.post("/sources/<part:name>")
@needs(_role_of_sender, public_bytes="max_signed_push_bytes")
def send_to_source(name: str) -> Response:
    """Push to a source of the kind webhook."""
    incoming.known_parameters(())
    settings = services().settings
    signed = services().connectors.has_secret(name)
    limit = settings.max_signed_push_bytes if signed else settings.max_push_bytes
    body = incoming.body_bytes(limit, "a push")
    media_type = request.headers.get("Content-Type", "")
    source = incoming.check_name(name, "the source name")
    answer = services().connectors.receive(source, body, media_type, dict(request.headers.items()))
    return incoming.json_response(answer)
