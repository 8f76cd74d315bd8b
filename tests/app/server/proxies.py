"""Reverse proxies before a server, as processes of the user that runs the tests."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

NGINX = """
daemon off; master_process off; pid {folder}/pid; error_log {folder}/error.log warn;
events {{ worker_connections 64; }}
http {{
  access_log off;
  client_body_temp_path {folder}/a; proxy_temp_path {folder}/b; fastcgi_temp_path {folder}/c;
  uwsgi_temp_path {folder}/d; scgi_temp_path {folder}/e;
  server {{
    listen 127.0.0.1:{port};
    location {path} {{ proxy_pass http://{upstream}; {more} }}
  }}
}}
"""
HAPROXY = """
defaults
  {more}
  timeout connect 5s
  timeout client 90s
  timeout server 90s
frontend f
  bind 127.0.0.1:{port}
  default_backend b
backend b
  server s {upstream}
"""


OPTIONS = {
    "nginx": ["-p", "{folder}", "-c"],
    "haproxy": ["-db", "-f"],
    "caddy": ["run", "--adapter", "caddyfile", "--config"],
}
"""The options of each program before the path of its configuration."""


@contextlib.contextmanager
def nginx(folder: Path, url: str, more: str = "", *, path: str = "/") -> Iterator[str]:
    """A server behind nginx as it is without further directives; gives the address of nginx.

    ``more`` are directives for its location, whose ``path`` is removed from requests unless it is the root.
    """
    upstream = urlsplit(url).netloc + ("" if path == "/" else "/")
    with running(
        "nginx",
        folder,
        lambda port: NGINX.format(folder=folder, port=port, upstream=upstream, more=more, path=path),
    ) as port:
        yield f"http://127.0.0.1:{port}{path}"


@contextlib.contextmanager
def haproxy(folder: Path, url: str, more: str = "mode http") -> Iterator[str]:
    """A server behind HAProxy; gives the address of HAProxy.

    ``more`` are lines of its section ``defaults``.
    """
    upstream = urlsplit(url).netloc
    with running(
        "haproxy", folder, lambda port: HAPROXY.format(port=port, upstream=upstream, more=more)
    ) as port:
        yield f"http://127.0.0.1:{port}/"


@contextlib.contextmanager
def running(name: str, folder: Path, configuration: Callable[[int], str]) -> Iterator[int]:
    """A running proxy with a configuration for a free port; gives the port."""
    program = shutil.which(name)
    if program is None:
        pytest.skip(f"{name} is not installed")
    port = free_port()
    config = folder / f"{name}.conf"
    config.write_text(configuration(port))
    options = [option.format(folder=folder) for option in OPTIONS[name]]
    environment = os.environ | {"HOME": str(folder), "XDG_DATA_HOME": str(folder)}
    process = subprocess.Popen(
        [program, *options, str(config)], stderr=subprocess.PIPE, text=True, env=environment
    )
    try:
        _wait_until_it_listens(process, port)
        yield port
    finally:
        process.kill()
        process.wait()
        if process.stderr is not None:
            process.stderr.close()


def free_port() -> int:
    """A free port that the system gives to no other socket meanwhile, unless it is asked for this port."""
    while True:
        port = random.randrange(15_000, 30_000)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


def _wait_until_it_listens(process: subprocess.Popen[str], port: int) -> None:
    until = time.monotonic() + 10
    while process.poll() is None and time.monotonic() < until:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.02)
    process.kill()
    pytest.fail(f"the proxy does not listen: {process.communicate()[1]}")
