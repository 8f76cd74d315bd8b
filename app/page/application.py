"""Factory of the Flask application that serves the web page."""

from __future__ import annotations

import tempfile

from flask import Flask, Response, request
from werkzeug.exceptions import HTTPException

from ..http.errors import HttpError
from ..http.problems import problem_answer
from ..wiring import Services
from . import login, views
from .pace import Pace


def create_page(services: Services, *, demo: Pace | None = None) -> Flask:
    """Make the Flask application; with ``demo``, the web page includes the view of the demo and its pace."""
    app = Flask(
        __package__,
        static_folder=None,
        instance_path=tempfile.gettempdir(),
        template_folder="templates",
    )
    app.extensions["quadrill"] = services
    app.config[views.DEMO] = demo
    app.register_error_handler(Exception, _problem)
    for part in (login, views):
        app.register_blueprint(part.blueprint)
    return app


def _problem(error: Exception) -> Response:
    if isinstance(error, HTTPException):
        status = error.code or 500
        detail = f"there is no resource at {request.path}" if status == 404 else str(error.description)
        error = HttpError(status, detail, code="no-such-resource" if status == 404 else "http")
    answer = problem_answer(error)
    return Response(answer.body, status=answer.status, headers=answer.headers)
