"""Reverse proxies before a server, as processes of the user that runs the tests."""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
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
    location / {{ proxy_pass http://{upstream}; {more} }}
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


@contextlib.contextmanager
def nginx(folder: Path, url: str, more: str = "") -> Iterator[str]:
    """A server behind nginx as it is without further directives; gives the address of nginx.

    ``more`` are directives for its location.
    """
    with _running("nginx", NGINX, folder, url, more, ["-p", str(folder), "-c"]) as found:
        yield found


@contextlib.contextmanager
def haproxy(folder: Path, url: str, more: str = "mode http") -> Iterator[str]:
    """A server behind HAProxy; gives the address of HAProxy.

    ``more`` are lines of its section ``defaults``.
    """
    with _running("haproxy", HAPROXY, folder, url, more, ["-db", "-f"]) as found:
        yield found


@contextlib.contextmanager
def _running(name: str, text: str, folder: Path, url: str, more: str, options: list[str]) -> Iterator[str]:
    program = shutil.which(name)
    if program is None:
        pytest.skip(f"{name} is not installed")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    config = folder / f"{name}.conf"
    config.write_text(text.format(folder=folder, port=port, upstream=urlsplit(url).netloc, more=more))
    process = subprocess.Popen([program, *options, str(config)], stderr=subprocess.PIPE, text=True)
    try:
        _wait_until_it_listens(process, port)
        yield f"http://127.0.0.1:{port}/"
    finally:
        process.kill()
        process.communicate()


def _wait_until_it_listens(process: subprocess.Popen[str], port: int) -> None:
    until = time.monotonic() + 10
    while process.poll() is None and time.monotonic() < until:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.02)
    process.kill()
    pytest.fail(f"the proxy does not listen: {process.communicate()[1]}")
