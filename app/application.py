"""Assembles the WSGI application: routes, errors, security, headers, figures."""

from __future__ import annotations

import gzip
import tempfile
from collections.abc import Mapping
from typing import Any

from flask import Flask, Response, request
from werkzeug.routing import BaseConverter

from . import security
from .config import Settings, load_settings
from .http import cors, errors, negotiation
from .http.middleware import NOSNIFF, ROUTE, Observed
from .routes import (
    admin,
    changes,
    connectors,
    dead_letters,
    feeds,
    graphs,
    health,
    jobs,
    login,
    openapi,
    prefixes,
    processes,
    queries,
    sparql,
    starting,
    stored,
    streams,
    upkeep,
)
from .wiring import Services, open_services

ROUTES = (
    *(sparql, graphs, stored, prefixes, streams, dead_letters, queries, feeds, changes, connectors),
    *(jobs, upkeep, health, processes, login, openapi, admin),
)

COMPRESSIBLE = (
    "text/",
    "application/json",
    "application/sparql",
    "application/problem",
    "application/n-",
    "image/svg",
)
COMPRESS_FROM_BYTES = 1024


class PartConverter(BaseConverter):
    """A name in a path: anything up to the next slash or the colon of ``:heartbeat``.

    Which names are allowed is checked later, so that a wrong one is told apart from a missing resource.
    """

    regex = "[^/:]+"


def create_app(
    config: Settings | Mapping[str, Any] | None = None,
    *,
    services: Services | None = None,
    demo: bool = False,
) -> Flask:
    """Make the WSGI application with all routes.

    Args:
        config: settings, or values for :func:`quadrill.app.config.load_settings`; environment when None.
        services: built already (the server does so); otherwise they are opened here, and
            ``app.extensions["quadrill"].close()`` closes them.
        demo: whether the demo runs on it; the page then has its picture.
    """
    if services is None:
        settings = config if isinstance(config, Settings) else load_settings(overrides=config)
        services = open_services(settings)
    app = Flask(
        __package__,
        static_folder=None,
        instance_path=tempfile.gettempdir(),
        template_folder="templates",
    )
    app.url_map.converters["part"] = PartConverter
    app.url_map.merge_slashes = False
    app.config["MAX_FORM_MEMORY_SIZE"] = None
    app.json.sort_keys = False  # type: ignore[attr-defined]
    app.extensions["quadrill"] = services
    app.config[admin.DEMO] = demo
    errors.install(app)
    _observe(app)
    security.install(app, services.security)
    starting.install(app, services)
    cors.install(app, services.settings)
    _finish(app, services)
    for part in ROUTES:
        app.register_blueprint(part.blueprint)
    app.wsgi_app = Observed(app.wsgi_app, services.metrics)  # type: ignore[method-assign]
    return app


def _observe(app: Flask) -> None:
    @app.before_request
    def _route() -> None:
        if request.url_rule is not None:
            request.environ[ROUTE] = request.url_rule.rule


def _finish(app: Flask, services: Services) -> None:
    """Put the headers on an answer that all carry: the store's version, and no guessing of types."""

    @app.after_request
    def _headers(response: Response) -> Response:
        if "ETag" not in response.headers:
            response.headers["ETag"] = f'"{services.store.version}"'
        # Nothing is of no type. An empty graph is still of the one that was asked for.
        by_default = response.mimetype == "text/html"
        untold = by_default and not (response.is_streamed or response.direct_passthrough)
        if response.status_code in (204, 304) or (untold and not response.get_data()):
            response.headers.pop("Content-Type", None)
        response.headers.setdefault(*NOSNIFF)
        if services.settings.gzip:
            _compress(response)
        return response


def _compress(response: Response) -> None:
    if response.direct_passthrough or response.is_streamed or "Content-Encoding" in response.headers:
        return
    if type(response) is not Response or not (response.content_type or "").startswith(COMPRESSIBLE):
        return
    body = response.get_data()
    if len(body) < COMPRESS_FROM_BYTES:
        return
    response.vary.add("Accept-Encoding")
    if negotiation.accepts_gzip(request.headers.get("Accept-Encoding")):
        response.set_data(gzip.compress(body, 1, mtime=0))
        response.headers["Content-Encoding"] = "gzip"
