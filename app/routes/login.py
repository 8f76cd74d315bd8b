"""``/login`` and ``/logout``: the page's cookie in exchange for a token."""

from __future__ import annotations

from flask import Blueprint, Response, redirect, request

from ..security import COOKIE, PUBLIC, needs
from . import requests as incoming
from .requests import services

blueprint = Blueprint("login", __name__)

_LIMIT = 4096


@blueprint.post("/login")
@needs(PUBLIC)
def log_in() -> Response:
    """Exchange a token (form field or JSON member ``token``) for the session cookie."""
    is_json = request.mimetype == "application/json"
    if is_json:
        token = str(incoming.json_body(_LIMIT, "the login").get("token", ""))
    else:
        token = request.form.get("token", "")
    session = services().security.log_in(token.strip(), request.remote_addr or "")
    response = Response(status=204) if is_json else _to_page()
    services().security.set_cookie(response, session)
    return response


@blueprint.post("/logout")
@needs(PUBLIC)
def log_out() -> Response:
    """End the session."""
    services().security.log_out(request.cookies.get(COOKIE, ""))
    response = Response(status=204) if request.mimetype == "application/json" else _to_page()
    response.delete_cookie(COOKIE, path="/", samesite="Strict", httponly=True)
    return response


def _to_page() -> Response:
    return redirect("/", code=303)  # type: ignore[return-value]
