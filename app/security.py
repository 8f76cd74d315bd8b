"""Access control: loopback by default, bearer tokens with roles, and the page's login cookie.

    role    may
    read    query, read graphs, streams and feeds
    push    push to streams
    write   everything that read and push may, and change graphs, streams and queries
    admin   everything

Without tokens only this machine is served: the ``Host`` must be loopback, so that a web page cannot reach the
server under a name of its own (DNS rebinding), and a write whose ``Origin`` is another site is refused, so
that a web page cannot post to it either. A request that a proxy has marked is refused unless the setting
``trusted_proxies`` names the proxy, because its client may be on any machine. With tokens every request needs
one, in ``Authorization: Bearer`` or as the cookie that ``POST /login`` sets, since EventSource cannot send
headers.
"""

from __future__ import annotations

import hashlib
import ipaddress
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Protocol, TypeAlias, TypeVar
from urllib.parse import urlsplit

from flask import Flask, Request, Response, g, request

from quadrill.store.errors import QuadrillError
from quadrill.store.registry import TokenRecord

from .config import Settings
from .grants import Grant
from .http import websocket
from .http.attempts import PerMinute, network_of, too_many
from .http.bodies import limit_public_body
from .http.errors import HttpError
from .http.gateway import COUNTED, TRUSTED
from .http.wire import FORWARDING, WireRequest

ROLES: dict[str, frozenset[str]] = {
    "read": frozenset({"read"}),
    "push": frozenset({"push"}),
    "write": frozenset({"read", "push", "write"}),
    "admin": frozenset({"read", "push", "write", "admin"}),
}
PUBLIC = "public"
PUBLIC_BODY_BYTES = 4096
"""Largest body of a request to a public route, before any of it is parsed: anybody may send one."""
COOKIE = "quadrill_session"
_CHANGING = frozenset({"push", "write"})
SESSION_SECONDS = 12 * 3600
TOKEN_CACHE_SECONDS = 2.0
MIN_TOKEN_LENGTH = 16
READING_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "QUERY"})

View = TypeVar("View", bound=Callable[..., Any])


class TokenRequiredError(QuadrillError):
    """The server would be reachable from other machines without any token."""

    code = "token-required"


Message: TypeAlias = "Request | WireRequest"
"""A request, whoever read it."""


class TokenStore(Protocol):
    """The registry's tokens."""

    def get_token(self, token_hash: str) -> TokenRecord | None: ...  # noqa: D102

    def list_tokens(self) -> list[TokenRecord]: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class Identity:
    """The sender of a request: its role and a label for the log."""

    role: str
    label: str = ""

    def may(self, needed: str) -> bool:
        """True when the role includes ``needed``."""
        return needed == PUBLIC or needed in ROLES[self.role]


LOCAL = Identity("admin", "local")


def needs(
    role: str | Callable[[Request], str], *, public_bytes: int | str = PUBLIC_BODY_BYTES
) -> Callable[[View], View]:
    """Mark the role that a view needs, or the function that derives the role from a request.

    Without a mark reading needs ``read``, anything else ``write``. ``public_bytes`` is the largest body of
    a request that needs no token, or the name of the setting with this limit.
    """

    def mark(view: View) -> View:
        view.quadrill_role = role  # type: ignore[attr-defined]
        view.quadrill_public_bytes = public_bytes  # type: ignore[attr-defined]
        return view

    return mark


def hash_token(token: str) -> str:
    """The digest that is stored of a token; tokens are long and random, so a plain one cannot be searched."""
    return hashlib.sha256(token.encode("utf-8")).hexdigest()


def new_token() -> str:
    """A fresh token of 256 random bits."""
    return secrets.token_urlsafe(32)


@lru_cache(maxsize=256)
def is_loopback(host: str) -> bool:
    """True for ``localhost`` and the loopback addresses of IPv4 and IPv6."""
    name = host.strip("[]").rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


class Security:
    """Decides about each request. Sessions of the page live in memory and end with the server."""

    def __init__(self, settings: Settings, tokens: TokenStore | None) -> None:
        self._settings = settings
        self._tokens = tokens
        self._own_hash = hash_token(settings.token) if settings.token else ""
        self._sessions: dict[str, tuple[str, float]] = {}
        self._cache: dict[str, tuple[Identity | None, float]] = {}
        self._any_tokens: tuple[bool, float] = (False, 0.0)
        self._lock = threading.Lock()
        self._wrong = PerMinute(settings.max_wrong_tokens)
        self._requests = PerMinute(settings.max_requests_per_token)
        self._right: set[str] = set()
        if settings.token and len(settings.token) < MIN_TOKEN_LENGTH:
            raise TokenRequiredError(
                f"the token has {len(settings.token)} characters, at least {MIN_TOKEN_LENGTH} are needed",
                hint="`quadrill token add admin` makes a good one.",
                code="token-weak",
            )

    def check_address(self) -> None:
        """Refuse to listen beyond loopback without a token.

        Raises: TokenRequiredError.
        """
        if not is_loopback(self._settings.host) and not self.has_tokens():
            raise TokenRequiredError(
                f"refusing to listen on {self._settings.host} without a token: anyone who reaches it could "
                "change the data",
                hint="Set QUADRILL_TOKEN, make a token with `quadrill token add`, or listen on 127.0.0.1.",
            )

    def has_tokens(self) -> bool:
        """True when requests need a token."""
        if self._own_hash:
            return True
        if self._tokens is None:
            return False
        known, until = self._any_tokens
        now = time.monotonic()
        if now >= until:
            known = bool(self._tokens.list_tokens())
            self._any_tokens = (known, now + TOKEN_CACHE_SECONDS)
        return known

    def forget(self) -> None:
        """Look tokens up anew from now on; otherwise a change is seen within ``TOKEN_CACHE_SECONDS``."""
        with self._lock:
            self._cache.clear()
        self._any_tokens = (False, 0.0)

    def authorise(
        self, needed: str, message: Message, address: str | None, *, again: bool = False
    ) -> Identity | None:
        """The request's identity, when it may do what needs the role ``needed``; None for the public.

        Args:
            needed: the role.
            message: the request.
            address: who sent it; None: a token that was not right before is refused without a look.
            again: the request was counted already.

        Raises: HttpError 401 without a valid token, 403 when the role does not allow it, or when it would
            change something and the server is read-only, 429 when its token or address is over a limit.
        """
        writing = needed not in ("read", PUBLIC) or message.path in ("/login", "/logout")
        # Browsers open WebSockets for pages of any site, and give these what comes.
        writing = writing or websocket.is_asked(message.headers)
        if needed in _CHANGING:
            refuse_when_read_only(self._settings)
        if not self.has_tokens():
            self._check_local(message, writing)
            return LOCAL
        identity = self._presented(message, writing, address, again=again)
        if needed == PUBLIC:
            return identity
        if identity is None:
            raise _unauthorised("this server needs a token")
        if not identity.may(needed):
            raise HttpError(
                403, f"this needs the role {needed}, the token has the role {identity.role}", code="forbidden"
            )
        return identity

    def grant(self, needed: str, message: Message) -> Grant:
        """The permission by which an authorised request may leave its connection open."""
        header, cookie = message.headers.get("Authorization", ""), message.cookies.get(COOKIE)
        if not self.has_tokens() or not (header or cookie):
            return Grant(self._permits, needed)
        if header:
            return Grant(self._permits, needed, digest=hash_token(header.partition(" ")[2].strip()))
        return Grant(self._permits, needed, session=hash_token(cookie or ""))

    def _permits(self, grant: Grant) -> bool:
        """True while the token or session of a grant is known and has the role."""
        digest = grant.digest
        if grant.session:
            with self._lock:
                digest, until = self._sessions.get(grant.session, ("", 0.0))
            if not digest or until < time.monotonic():
                return False
        if not digest:
            return grant.needed == PUBLIC or not self.has_tokens()
        identity = self._of_hash(digest)
        return identity is not None and identity.may(grant.needed)

    def public_body_bytes(self, view: object) -> int:
        """Return the largest body that a view accepts when its request needs no token."""
        limit = getattr(view, "quadrill_public_bytes", PUBLIC_BODY_BYTES)
        return int(getattr(self._settings, limit)) if isinstance(limit, str) else int(limit)

    def log_in(self, token: str, address: str) -> str:
        """Start a session of the page; returns the cookie's value.

        Raises: HttpError 401 when the token is unknown, 429 after too many of those from one address.
        """
        digest = hash_token(token)
        if self._shown(digest, address) is None:
            raise _unauthorised("this token is not known")
        session = secrets.token_urlsafe(32)
        now = time.monotonic()
        with self._lock:
            self._sessions = {key: value for key, value in self._sessions.items() if value[1] > now}
            self._sessions[hash_token(session)] = (digest, now + SESSION_SECONDS)
        return session

    def log_out(self, session: str) -> None:
        """End a session of the page."""
        with self._lock:
            self._sessions.pop(hash_token(session), None)

    def set_cookie(self, response: Response, session: str) -> None:
        """Give a browser its session: out of reach of scripts and of other sites."""
        response.set_cookie(
            COOKIE,
            session,
            max_age=SESSION_SECONDS,
            httponly=True,
            samesite="Strict",
            secure=request.is_secure,
            path="/",
        )

    def _shown(self, digest: str, address: str | None) -> Identity | None:
        """The identity behind a token that an address shows.

        The limit refuses wrong tokens only, because many clients may have one address. It slows down a search
        for tokens that somebody chose; one of 256 random bits cannot be found so.
        """
        if digest not in self._right:
            if address is None:
                return None
            if self._of_hash(digest) is None:
                sender = network_of(address)
                wait_s = self._wrong.wait_s(sender)
                if wait_s:
                    raise too_many("too many wrong tokens came from this address", wait_s)
                self._wrong.count(sender)
                return None
            self._right.add(digest)
        found = self._of_hash(digest)
        if found is None:
            self._right.discard(digest)
        return found

    def _presented(
        self, message: Message, writing: bool, address: str | None, *, again: bool
    ) -> Identity | None:
        header = message.headers.get("Authorization", "")
        scheme, _, token = header.partition(" ")
        if header:
            digest = hash_token(token.strip())
            found = self._shown(digest, address) if scheme.lower() == "bearer" else None
            if found is None:
                raise _unauthorised("the token in the Authorization header is not known")
            return found if again else self._counted(digest, found)
        cookie = message.cookies.get(COOKIE)
        if not cookie:
            return None
        with self._lock:
            digest, until = self._sessions.get(hash_token(cookie), ("", 0.0))
        if not digest or until < time.monotonic():
            return None
        if writing:
            self._check_origin(message)
        shown = self._of_hash(digest)
        return shown if shown is None or again else self._counted(digest, shown)

    def _counted(self, digest: str, identity: Identity) -> Identity:
        """One more request of a token."""
        wait_s = self._requests.wait_s(digest)
        if wait_s:
            raise too_many("this token has sent too many requests", wait_s)
        self._requests.count(digest)
        return identity

    def _of_hash(self, digest: str) -> Identity | None:
        if self._own_hash and secrets.compare_digest(digest, self._own_hash):
            return Identity("admin", "QUADRILL_TOKEN")
        if self._tokens is None:
            return None
        now = time.monotonic()
        cached = self._cache.get(digest)
        if cached is not None and cached[1] > now:
            return cached[0]
        record = self._tokens.get_token(digest)
        identity = (
            Identity(record.role, record.label) if record is not None and record.role in ROLES else None
        )
        with self._lock:
            if len(self._cache) > 1000:
                self._cache.clear()
            self._cache[digest] = (identity, now + TOKEN_CACHE_SECONDS)
        return identity

    def _check_local(self, message: Message, writing: bool) -> None:
        if _through_unknown_proxy(message):
            raise HttpError(
                403,
                "without tokens only this machine is served, and this request came through a proxy that is "
                "not trusted: any machine could have sent it",
                code="untrusted-proxy",
                hint="Set a token. Or name the proxy in the setting trusted_proxies, if all clients that "
                "it lets in may change everything.",
            )
        host = _host_name(message.headers.get("Host", ""))
        if not is_loopback(host) and host not in self._settings.host_names:
            raise HttpError(
                403,
                f"without tokens only this machine is served, and {host or 'an empty Host'} is not its name",
                code="foreign-host",
                hint="Use http://127.0.0.1, or set a token, or the setting host_names.",
            )
        if writing:
            self._check_origin(message)

    def _check_origin(self, message: Message) -> None:
        origin = message.headers.get("Origin")
        if origin is None:
            if message.headers.get("Sec-Fetch-Site") == "cross-site":
                raise _foreign_origin("another site")
            return
        own = message.headers.get("Host", "").lower()
        if urlsplit(origin).netloc.lower() == own and own:
            return
        if origin not in self._settings.cors_origins:
            raise _foreign_origin(origin)


def _through_unknown_proxy(message: Message) -> bool:
    """True when a request says that a proxy sent it, which is none of the trusted ones."""
    if isinstance(message, WireRequest):
        return message.fields.forwarded and not message.trusted
    return TRUSTED not in message.environ and any(name in message.headers for name in FORWARDING)


def install(app: Flask, security: Security) -> None:
    """Check every request of ``app`` before its view runs."""

    @app.before_request
    def _check() -> None:
        if request.method == "OPTIONS":
            return
        view = app.view_functions.get(request.endpoint or "")
        default = "read" if request.method in READING_METHODS else "write"
        needed = getattr(view, "quadrill_role", default)
        if callable(needed):
            needed = needed(request)
        address, counted = request.remote_addr or "", COUNTED in request.environ
        g.identity = security.authorise(needed, request, address, again=counted)
        g.grant = partial(security.grant, needed, request)
        if needed == PUBLIC:
            limit_public_body(security.public_body_bytes(view))


def refuse_when_read_only(settings: Settings) -> None:
    """Raise HttpError 403 in read-only mode."""
    if settings.read_only:
        raise HttpError(403, "this server is read-only", code="read-only")


@lru_cache(maxsize=256)
def _host_name(header: str) -> str:
    """The Host header without its port, lower-cased."""
    host = header.strip().lower()
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def _unauthorised(message: str) -> HttpError:
    return HttpError(
        401,
        message,
        code="unauthorised",
        hint="Send it as `Authorization: Bearer TOKEN`, or log in on the page.",
        headers={"WWW-Authenticate": 'Bearer realm="quadrill"'},
    )


def _foreign_origin(origin: str) -> HttpError:
    return HttpError(
        403,
        f"a page of {origin} may not change anything here",
        code="foreign-origin",
        hint="The setting cors_origins lists the origins that may.",
    )
