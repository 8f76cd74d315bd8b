"""``/sources`` and ``/sinks``: declare, list, start, stop and drop connectors."""

from __future__ import annotations

from quadrill.store.registry import ConnectorRole

from ..connectors.catalogue import described_kinds
from ..http.answers import WholeAnswer, json_answer, no_content
from ..http.callers import PUBLIC
from ..http.errors import HttpError
from ..http.parameters import check_name
from ..http.request import Request
from ..wiring import Services
from .links import base_url


class ConnectorResources:
    """The HTTP operations of ``/sources`` or ``/sinks``, which are equal for both."""

    def __init__(self, which: str, role: ConnectorRole) -> None:
        """Make the HTTP operations; ``which`` is the first part of the path: ``sources`` or ``sinks``."""
        self.which = which
        self.role = role

    def list(self, services: Services, request: Request) -> WholeAnswer:
        """Return all sources, or all sinks."""
        request.arguments.check()
        return json_answer({self.which: services.connectors.all(self.role)})

    def kinds(self, services: Services, request: Request) -> WholeAnswer:
        """Return the kinds of connectors that can be declared, each with the members of its declaration."""
        request.arguments.check()
        return json_answer({"kinds": described_kinds(self.role)})

    def get(self, services: Services, request: Request) -> WholeAnswer:
        """Return the declaration of a connector without secrets, its state, position, rate, lag and error."""
        request.arguments.check()
        return json_answer(services.connectors.get(self.role, self._name(request)))

    def dead_letters(self, services: Services, request: Request) -> WholeAnswer:
        """Return the dead letters of a connector: input or events that failed, oldest first."""
        request.arguments.check()
        letters = services.connectors.dead_letters(self.role, self._name(request))
        return json_answer({"letters": letters.list()})

    def drop_dead_letters(self, services: Services, request: Request) -> WholeAnswer:
        """Drop all dead letters of a connector."""
        request.arguments.check()
        letters = services.connectors.dead_letters(self.role, self._name(request))
        return json_answer({"dropped": letters.clear()})

    def put(self, services: Services, request: Request) -> WholeAnswer:
        """Declare or change a connector and start it; with ``?dry_run=true``, only return the effect.

        A declaration equal to the connector's present one changes nothing and starts nothing.
        """
        request.arguments.check({"dry_run"})
        members = request.json(services.settings.max_query_bytes, "the declaration")
        name = request.name
        given = members.pop("name", name)
        if given != name:
            raise HttpError(400, f"the declaration has two names, {name} and {given!r}", code="member")
        name = self._name(request)
        if request.arguments.flag("dry_run"):
            return json_answer({"change": services.connectors.compare(self.role, name, members)})
        description, created = services.connectors.put(self.role, name, members)
        if not created:
            return json_answer(description)
        location = f"{base_url(services, request)}{self.which}/{name}"
        return json_answer(description, 201, {"Location": location})

    def start(self, services: Services, request: Request) -> WholeAnswer:
        """Start a connector, even if the connector has failed."""
        request.arguments.check()
        return json_answer(services.connectors.set_wanted(self.role, self._name(request), True))

    def stop(self, services: Services, request: Request) -> WholeAnswer:
        """Stop a connector; after a restart of the server, the connector stays stopped."""
        request.arguments.check()
        return json_answer(services.connectors.set_wanted(self.role, self._name(request), False))

    def drop(self, services: Services, request: Request) -> WholeAnswer:
        """Stop a connector and remove its declaration."""
        request.arguments.check()
        services.connectors.drop(self.role, self._name(request))
        return no_content()

    def _name(self, request: Request) -> str:
        return check_name(request.name, f"the {self.role} name")


SOURCES = ConnectorResources("sources", "source")
SINKS = ConnectorResources("sinks", "sink")


def role_of_sender(services: Services, request: Request) -> str:
    """Return the role of a push to a webhook source: none if the source has a secret for signatures."""
    return PUBLIC if services.connectors.has_secret(request.name or "") else "push"


def send_to_source(services: Services, request: Request) -> WholeAnswer:
    """Push a request body to a source of the kind webhook."""
    request.arguments.check()
    settings = services.settings
    signed = services.connectors.has_secret(request.name or "")
    limit = settings.max_signed_push_bytes if signed else settings.max_push_bytes
    body = request.read(limit, "a push")
    media_type = request.headers.get("Content-Type", "")
    source = check_name(request.name, "the source name")
    return json_answer(services.connectors.receive(source, body, media_type, dict(request.headers)))
