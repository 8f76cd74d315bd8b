"""TCP connections to hosts by name that end at a deadline, the look-up of the name included.

The system's resolver of host names has no time-out and cannot be interrupted, so daemon threads call the
resolver. A caller of a host look-up returns at its deadline or when it is stopped; the daemon thread ends
when the resolver returns.
"""

from __future__ import annotations

import errno
import ipaddress
import os
import select
import socket
import threading
import time
from collections.abc import Callable
from typing import Any, TypeAlias

LOOK_S = 0.25
"""Seconds between two checks whether the caller has to stop waiting for the network."""
_MOST_LOOKUPS = 32
"""Maximum number of threads that call the resolver of host names; further look-ups wait."""
_MOST_LOOKUPS_OF_A_HOST = 2
"""Maximum number of resolver threads for one host, because its name server may be silent."""
_SHARED_S = 5.0
"""Age in seconds from which a host look-up without an answer is repeated for new callers."""

Check: TypeAlias = Callable[[], object]
"""A callback that raises an error if the caller has to stop; the waiting thread calls it often."""
Address: TypeAlias = tuple[int, int, int, str, Any]
"""An address of a host, as ``socket.getaddrinfo`` returns it."""


def connect(host: str, port: int, until: float, check: Check) -> socket.socket:
    """Open a TCP connection; the host's addresses are tried in order, and share the time that is left.

    Args:
        host: a name or an address.
        port: the TCP port of the remote host.
        until: the deadline, on the monotonic clock.
        check: see `Check`.

    Raises:
        TimeoutError: the deadline has passed.
        OSError: the name cannot be resolved, or no address accepts the connection.
    """
    found = addresses(host, port, until, check)
    failure: OSError = OSError(f"{host} has no address")
    for number, address in enumerate(found):
        left = until - time.monotonic()
        try:
            return _connected(address, time.monotonic() + left / (len(found) - number), check)
        except OSError as error:
            failure = error
    raise failure


def addresses(host: str, port: int, until: float, check: Check) -> list[Address]:
    """Look up the addresses of a host; parameters and errors are those of `connect`."""
    literal = _literal(host, port)
    if literal is not None:
        return [literal]
    lookup = _LOOKUPS.join(host, port)
    while lookup is None:
        check()
        if time.monotonic() >= until:
            raise TimeoutError(f"{host} was not looked up in time: too many look-ups have no answer")
        _LOOKUPS.wait(min(LOOK_S, max(0.0, until - time.monotonic())))
        lookup = _LOOKUPS.join(host, port)
    while not lookup.done.wait(min(LOOK_S, max(0.0, until - time.monotonic()))):
        check()
        if time.monotonic() >= until:
            raise TimeoutError(f"the name {host} was not looked up in time")
    check()
    return lookup.result()


def wait_ready(sock: socket.socket, event: int, until: float, check: Check) -> None:
    """Wait until ``select.poll`` reports ``event`` for a socket; raises TimeoutError at the deadline."""
    poll = select.poll()
    poll.register(sock, event)
    while True:
        left = max(0.0, until - time.monotonic())
        if poll.poll(min(LOOK_S, left) * 1000):
            return
        check()
        if left <= LOOK_S:
            raise TimeoutError("timed out")


def _literal(host: str, port: int) -> Address | None:
    """Return the address that a host is written as (an IP address); None for a name."""
    try:
        version = ipaddress.ip_address(host).version
    except ValueError:
        return None
    if "%" in host:
        return None  # only the resolver knows the numbers of network interfaces
    if version == 4:
        return socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (host, port)
    return socket.AF_INET6, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (host, port, 0, 0)


def _connected(address: Address, until: float, check: Check) -> socket.socket:
    family, kind, protocol, _, place = address
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setblocking(False)
        code = sock.connect_ex(place)
        if code == errno.EINPROGRESS:
            wait_ready(sock, select.POLLOUT, until, check)
            code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            raise OSError(code, os.strerror(code))
        sock.setblocking(True)
    except BaseException:
        sock.close()
        raise
    return sock


class _HostLookup:
    """One call of the resolver of host names, shared by concurrent callers for the same host."""

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port
        self.began = time.monotonic()
        self.done = threading.Event()
        self._found: list[Address] = []
        self._error: Exception | None = None

    def run(self) -> None:
        """Call the resolver of host names and store its result or error."""
        try:
            self._found = list(socket.getaddrinfo(self.host, self.port, 0, socket.SOCK_STREAM))
        except Exception as error:
            self._error = error.with_traceback(None)

    def result(self) -> list[Address]:
        """Return the addresses that the resolver found, or raise its error."""
        error = self._error
        if error is not None:
            raise type(error)(*error.args)
        return self._found


class _Lookups:
    """The running host look-ups; safe to use from any thread."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._running: dict[tuple[str, int], list[_HostLookup]] = {}

    def join(self, host: str, port: int) -> _HostLookup | None:
        """Return a running or new look-up of a host; None if too many look-ups are running."""
        with self._changed:
            running = self._running.get((host, port), [])
            of_host = sum(len(each) for (name, _), each in self._running.items() if name == host)
            if running and (
                time.monotonic() < running[-1].began + _SHARED_S or of_host >= _MOST_LOOKUPS_OF_A_HOST
            ):
                return running[-1]
            if sum(map(len, self._running.values())) >= _MOST_LOOKUPS or of_host >= _MOST_LOOKUPS_OF_A_HOST:
                return None
            lookup = _HostLookup(host, port)
            self._running[host, port] = [*running, lookup]
        threading.Thread(target=self._run, args=(lookup,), name="quadrill-resolver", daemon=True).start()
        return lookup

    def wait(self, seconds: float) -> None:
        """Wait until a host look-up ends, for at most ``seconds``."""
        with self._changed:
            self._changed.wait(seconds)

    def _run(self, lookup: _HostLookup) -> None:
        lookup.run()
        with self._changed:
            key = lookup.host, lookup.port
            others = [each for each in self._running[key] if each is not lookup]
            if others:
                self._running[key] = others
            else:
                del self._running[key]
            self._changed.notify_all()
        lookup.done.set()


_LOOKUPS = _Lookups()
