"""Access control: loopback by default, bearer tokens with roles, and the page's login cookie.

    role    may
    read    query, read graphs, streams and feeds
    push    push to streams
    write   everything that read and push may, and change graphs, streams and queries
    admin   everything

Without tokens the server accepts requests from this machine only: the ``Host`` must be loopback, so that a
web page cannot reach the server under another name (DNS rebinding), and a write whose ``Origin`` is another
site is rejected, so that a web page cannot post to the server. A request with headers of a proxy is rejected
unless the setting ``trusted_proxies`` names the proxy, because the client may be on any machine. With tokens
every request except public ones, such as the login and health, needs a token, in ``Authorization: Bearer`` or
as the cookie that ``POST /login`` sets, since EventSource cannot send headers.
"""

from __future__ import annotations

import hashlib
import ipaddress
import re
import secrets
import threading
import time
from functools import lru_cache
from urllib.parse import urlsplit

from quadrill.store.errors import ReportedError
from quadrill.store.registry import TokenRecords

from .config import Settings
from .http import websocket
from .http.attempt_counts import MinuteCounter, network_of, too_many
from .http.callers import LOCAL, NOBODY, PUBLIC, ROLES, Caller
from .http.errors import HttpError
from .http.grants import Grant
from .http.request import Request, decoded

COOKIE = "quadrill_session"
_READING = frozenset({"read", PUBLIC})
_CHANGING = frozenset({"push", "write"})
SESSION_SECONDS = 12 * 3600
REFRESH_SECONDS = 2.0
"""Seconds between two reads of the registry's tokens, which other processes may add and remove."""
MIN_TOKEN_LENGTH = 16
SHOWN_DIGITS = 12
"""Number of digits of a token's hash by which lists name the token."""
_MOST_MISSED = 10_000


class TokenRequiredError(ReportedError):
    """Error that the server would listen beyond loopback without a token, or that its token is too short."""

    code = "token-required"


def hash_token(token: str) -> str:
    """Return the digest under which a token is stored; random tokens need no salt or slow hash."""
    return hashlib.sha256(token.encode("utf-8")).hexdigest()


def new_token() -> str:
    """Create an access token of 256 random bits."""
    return secrets.token_urlsafe(32)


def origin_of(url: str) -> str:
    """Return the web origin of an HTTP URL as browsers send it, without the scheme's own port."""
    parts = urlsplit(url.lower())
    port = {"http": ":80", "https": ":443"}.get(parts.scheme, ":")
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2].removesuffix(port)}" if url else ""


@lru_cache(maxsize=256)
def is_loopback(host: str) -> bool:
    """Return True for ``localhost``, names below it, and the loopback addresses of IPv4 and IPv6."""
    name = host.strip("[]").rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


class Security:
    """Access control for all requests, with the page's sessions, which exist in memory only.

    Access tokens are cached in memory and read again every `REFRESH_SECONDS`, so that only a request with an
    unknown token waits for the registry's database.
    """

    def __init__(self, settings: Settings, tokens: TokenRecords | None) -> None:
        self._settings = settings
        self._tokens = tokens
        self._own_hash = hash_token(settings.token) if settings.token else ""
        self._public_origin = origin_of(settings.public_url)
        self._sessions: dict[str, tuple[str, float]] = {}
        self._started_s = int(time.time())
        self._known: dict[str, Caller] = {}
        # Digests of unknown tokens since the tokens were last reloaded; the registry is queried once for each
        # unknown token.
        self._missed: set[str] = set()
        self._any_tokens = bool(self._own_hash)
        self._lock = threading.Lock()
        self._wrong = MinuteCounter(settings.max_wrong_tokens)
        self._requests = MinuteCounter(settings.max_requests_per_token)
        if settings.token and len(settings.token) < MIN_TOKEN_LENGTH:
            raise TokenRequiredError(
                f"the token has {len(settings.token)} characters, at least {MIN_TOKEN_LENGTH} are needed",
                hint="`quadrill token add admin` makes a good one.",
                code="token-weak",
            )
        self.refresh()

    def refresh(self) -> None:
        """Reload the cached access tokens from the registry."""
        if self._tokens is None:
            return
        records = self._tokens.all()
        self._known = {each.hash: Caller(each.role, each.label) for each in records if each.role in ROLES}
        self._missed = set()
        # A token with an unknown role permits no request, but still makes the server require tokens.
        self._any_tokens = bool(self._own_hash or records)

    def check_address(self) -> None:
        """Check that the server does not listen beyond loopback without a token.

        Raises: TokenRequiredError if the address is not loopback and no token exists.
        """
        if not is_loopback(self._settings.host) and not self.has_tokens():
            raise TokenRequiredError(
                f"refusing to listen on {self._settings.host} without a token: anyone who reaches it could "
                "change the data",
                hint="Set QUADRILL_TOKEN, make a token with `quadrill token add`, or listen on 127.0.0.1.",
            )

    def has_tokens(self) -> bool:
        """Return True if every request except the public ones needs a token."""
        return self._any_tokens

    def authorise(self, needed: str, request: Request) -> None:
        """Authenticate a request and check that its sender has the role ``needed``.

        Raises: HttpError 401 without a valid token; 403 if the role is insufficient, if the request writes to
            a read-only server, or if it comes from another site or, without tokens, from another machine; 429
            if the token or address exceeds a limit.
        """
        if needed in _CHANGING:
            refuse_when_read_only(self._settings)
        writing = _is_writing(needed, request)
        if not self._any_tokens:
            self._check_local(request, writing)
            caller = LOCAL
        else:
            caller = self._presented(request, writing)
            if needed != PUBLIC:
                _check_role(needed, caller)
        request.caller, request.needed = caller, needed

    def require(self, needed: str, request: Request) -> None:
        """Check that the sender of an authorised request has another role that the request needs.

        Raises: HttpError 401 without a token; 403 if the role is insufficient, if the server is read-only, or
            if a page of another site has sent the request.
        """
        if needed in _CHANGING:
            refuse_when_read_only(self._settings)
        if _is_writing(needed, request) and not request.headers.get("Authorization"):
            self._check_origin(request)
        _check_role(needed, request.caller or NOBODY)

    def grant(self, request: Request) -> Grant:
        """Return the permission by which an authorised request, such as an event stream, stays open."""
        needed = request.needed
        header, cookie = request.headers.get("Authorization", ""), request.cookies.get(COOKIE)
        if not self.has_tokens() or not (header or cookie):
            return Grant(self._permits, needed)
        if header:
            return Grant(self._permits, needed, digest=hash_token(header.partition(" ")[2].strip()))
        return Grant(self._permits, needed, session=hash_token(cookie or ""))

    def _permits(self, grant: Grant) -> bool:
        """Return True while the token or session of a grant exists and has the role that the grant needs."""
        digest = grant.digest
        if grant.session:
            with self._lock:
                digest, until = self._sessions.get(grant.session, ("", 0.0))
            if not digest or until < time.monotonic():
                return False
        if not digest:
            return grant.needed == PUBLIC or not self.has_tokens()
        caller = self._of_hash(digest)
        return caller is not None and caller.may(grant.needed)

    def log_in(self, token: str, address: str) -> str:
        """Start a session of the web page and return the value of the session cookie.

        Raises: HttpError 401 for an unknown token, 429 after too many unknown tokens from one address.
        """
        digest = hash_token(token)
        if self._shown(digest, address) is None:
            raise _unauthorised("this token is not known")
        session = f"{int(time.time())}-{secrets.token_urlsafe(32)}"
        now = time.monotonic()
        with self._lock:
            self._sessions = {key: value for key, value in self._sessions.items() if value[1] > now}
            self._sessions[hash_token(session)] = (digest, now + SESSION_SECONDS)
        return session

    def lost_session(self, session: str) -> str | None:
        """Return a sentence that says why the session of a cookie has ended; None for a valid session.

        The time in the cookie's value is a claim of the client, so it only chooses the sentence.
        """
        with self._lock:
            digest, until = self._sessions.get(hash_token(session), ("", 0.0))
        if digest and until >= time.monotonic():
            return None if self._of_hash(digest) else "The token with which you signed in was removed."
        began = re.match(r"([0-9]{1,12})-", session)
        if began is not None and int(began[1]) < self._started_s:
            return "The server has restarted since you signed in, and its sessions ended with it."
        return f"Your session has ended: sessions last {SESSION_SECONDS // 3600} hours."

    def log_out(self, session: str) -> None:
        """End a session of the web page."""
        with self._lock:
            self._sessions.pop(hash_token(session), None)

    def _shown(self, digest: str, address: str) -> Caller | None:
        """Return role and label of an access token that a client at an address sent; None if it is unknown.

        The limit on wrong tokens per address rejects only tokens that are not cached, because many clients
        may share one address. The limit on wrong tokens slows down the guessing of tokens chosen by users;
        tokens of 256 random bits cannot be guessed.
        """
        found = self._of_hash(digest)
        if found is None:
            sender = network_of(address)
            wait_s = self._wrong.wait_s(sender)
            if wait_s:
                raise too_many("too many wrong tokens came from this address", wait_s)
            found = self._looked_up(digest)
            if found is None:
                self._wrong.count(sender)
        return found

    def _looked_up(self, digest: str) -> Caller | None:
        """Look up an access token in the registry, because it may be newer than the cached tokens."""
        if self._tokens is None or digest in self._missed:
            return None
        record = self._tokens.get(digest)
        if record is None or record.role not in ROLES:
            if len(self._missed) < _MOST_MISSED:
                self._missed.add(digest)
            return None
        self.refresh()
        return self._of_hash(digest)

    def knows(self, request: Request) -> bool:
        """Return False for a request whose token is not cached and has to be looked up in the registry."""
        header = request.headers.get("Authorization")
        return header is None or self._of_hash(hash_token(header.partition(" ")[2].strip())) is not None

    def _presented(self, request: Request, writing: bool) -> Caller:
        header = request.headers.get("Authorization", "")
        scheme, _, token = header.partition(" ")
        if header:
            digest = hash_token(token.strip())
            found = self._shown(digest, request.client) if scheme.lower() == "bearer" else None
            if found is None:
                raise _unauthorised("the token in the Authorization header is not known")
            return self._counted(digest, found)
        cookie = request.cookies.get(COOKIE)
        if not cookie:
            return NOBODY
        with self._lock:
            digest, until = self._sessions.get(hash_token(cookie), ("", 0.0))
        if not digest or until < time.monotonic():
            return NOBODY
        if writing:
            self._check_origin(request)
        shown = self._of_hash(digest)
        return NOBODY if shown is None else self._counted(digest, shown)

    def _counted(self, digest: str, caller: Caller) -> Caller:
        """Count a request against the limit of requests per access token; raise HttpError 429 above it."""
        wait_s = self._requests.wait_s(digest)
        if wait_s:
            raise too_many("this token has sent too many requests", wait_s)
        self._requests.count(digest)
        return caller

    def _of_hash(self, digest: str) -> Caller | None:
        if self._own_hash and secrets.compare_digest(digest, self._own_hash):
            return Caller("admin", "QUADRILL_TOKEN")
        return self._known.get(digest)

    def _check_local(self, request: Request, writing: bool) -> None:
        if request.fields.forwarded and not request.trusted:
            raise HttpError(
                403,
                "without tokens only this machine is served, and this request came through a proxy that is "
                "not trusted: any machine could have sent it",
                code="untrusted-proxy",
                hint="Set a token. Or name the proxy in the setting trusted_proxies, if all clients that "
                "it lets in may change everything.",
            )
        host = _host_name(request.headers.get("Host", ""))
        if not is_loopback(host) and host not in self._settings.host_names:
            raise HttpError(
                403,
                f"without tokens only this machine is served, and {host or 'an empty Host'} is not its name",
                code="foreign-host",
                hint="Use http://127.0.0.1, or set a token, or the setting host_names.",
            )
        if writing:
            self._check_origin(request)

    def _check_origin(self, request: Request) -> None:
        origin = request.headers.get("Origin")
        if origin is None:
            if request.headers.get("Sec-Fetch-Site") == "cross-site":
                raise _foreign_origin("another site")
            return
        own = request.headers.get("Host", "").lower()
        if urlsplit(origin).netloc.lower() == own and own:
            return
        # Behind a proxy at another port or with another name, Host may differ from the address of the page.
        if origin and origin.lower() == self._public_origin:
            return
        if origin not in self._settings.cors_origins:
            raise _foreign_origin(origin)


def _is_writing(needed: str, request: Request) -> bool:
    """Return True for requests that a page of another site must not send, such as writes and WebSockets."""
    # Browsers let pages of any site open WebSockets and read the received messages.
    return (
        needed not in _READING
        or "Upgrade" in request.headers
        and websocket.is_asked(request.headers)
        or _is_of_sessions(request.path)
    )


@lru_cache(maxsize=64)
def _is_of_sessions(path: str) -> bool:
    return decoded(path) in ("/login", "/logout")


def refuse_when_read_only(settings: Settings) -> None:
    """Raise HttpError 403 if the server is in read-only mode."""
    if settings.read_only:
        raise HttpError(403, "this server is read-only", code="read-only")


@lru_cache(maxsize=256)
def _host_name(header: str) -> str:
    """Return the name in a request's Host header in lower case without the port."""
    host = header.strip().lower()
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def _unauthorised(message: str) -> HttpError:
    """Build the HTTP 401 error for a request without a valid token."""
    return HttpError(
        401,
        message,
        code="unauthorised",
        hint="Send it as `Authorization: Bearer TOKEN`, or log in on the page.",
        headers={"WWW-Authenticate": 'Bearer realm="quadrill"'},
    )


def _check_role(needed: str, caller: Caller) -> None:
    """Raise HttpError 401 for a sender without a token, 403 if its role does not include ``needed``."""
    if not caller.role:
        raise _unauthorised("this server needs a token")
    if not caller.may(needed):
        raise HttpError(
            403, f"this needs the role {needed}, the token has the role {caller.role}", code="forbidden"
        )


def _foreign_origin(origin: str) -> HttpError:
    return HttpError(
        403,
        f"a page of {origin} may not change anything here",
        code="foreign-origin",
        hint="Behind a proxy, set public_url. The setting cors_origins lists further origins that may.",
    )
