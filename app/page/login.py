"""``/login`` and ``/logout``: exchange a token for the session cookie of the web page."""

from __future__ import annotations

from io import BytesIO
from typing import Any

from flask import Blueprint, Response, redirect, request, url_for
from werkzeug.exceptions import RequestEntityTooLarge
from werkzeug.formparser import FormDataParser

from ..http.bodies import too_large
from ..http.callers import PUBLIC_BODY_BYTES
from ..http.request import Request
from ..security import COOKIE, SESSION_SECONDS
from .context import received, services

blueprint = Blueprint("login", __name__)

_MOST_PARTS = 16
"""Maximum number of fields and files in a multipart login; the login form has two."""


@blueprint.post("/login")
def log_in() -> Response:
    """Exchange an access token (form field or JSON member ``token``) for the page's session cookie."""
    message = received()
    is_json = message.media_type == "application/json"
    if is_json:
        token = str(message.json(PUBLIC_BODY_BYTES, "the login").get("token", ""))
    else:
        token = _form_token(message)
    session = services().security.log_in(token.strip(), message.client)
    response = Response(status=204) if is_json else _to_page()
    response.set_cookie(COOKIE, session, max_age=SESSION_SECONDS, **_cookie_options())
    return response


@blueprint.post("/logout")
def log_out() -> Response:
    """End the sender's session of the web page and delete the session cookie."""
    services().security.log_out(request.cookies.get(COOKIE, ""))
    response = Response(status=204) if request.mimetype == "application/json" else _to_page()
    response.delete_cookie(COOKIE, **_cookie_options())
    return response


def _cookie_options() -> dict[str, Any]:
    """Return the attributes of the session cookie.

    Scripts cannot read the cookie, browsers do not send it from other sites, and over plain HTTP they do not
    send it if clients see the server by HTTPS.
    """
    secure = received().encrypted or services().settings.public_url.lower().startswith("https:")
    path = received().prefix or "/"
    return {"path": path, "secure": secure, "httponly": True, "samesite": "Strict"}


def _form_token(message: Request) -> str:
    """Return the field ``token`` of a login form, urlencoded or multipart.

    Raises: HttpError 413 when the form is too large, or a multipart form has too many parts.
    """
    body = message.read(PUBLIC_BODY_BYTES, "the login")
    parser = FormDataParser(max_form_parts=_MOST_PARTS)
    try:
        _, form, _ = parser.parse(BytesIO(body), request.mimetype, len(body), request.mimetype_params)
    except RequestEntityTooLarge as error:
        raise too_large("the login", PUBLIC_BODY_BYTES, None) from error
    return form.get("token", "")


def _to_page() -> Response:
    return redirect(url_for("admin.index"), code=303)  # type: ignore[return-value]
