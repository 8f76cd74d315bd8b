"""A mosquitto of the tests' own, which they can kill."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.app.test_feed_streams import until as _until

MOSQUITTO = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin")
NEEDED = [
    pytest.mark.skipif(MOSQUITTO is None, reason="needs Debian's package mosquitto"),
    pytest.mark.process,
]
HOST = "127.0.0.1"


def until(condition: Callable[[], object], seconds: float = 45.0) -> None:
    _until(condition, seconds)


class Broker:
    """A mosquitto that writes each change to its file."""

    def __init__(self, folder: Path, *more: str) -> None:
        self.folder = folder
        with socket.create_server((HOST, 0)) as sock:
            self.port = sock.getsockname()[1]
        self.url = f"mqtt://{HOST}:{self.port}"
        self.config = folder / "mosquitto.conf"
        lines = [
            "persistence true",
            f"persistence_location {folder}/",
            "autosave_on_changes true",
            "autosave_interval 1",
            "user root",
            *(more or ("allow_anonymous true",)),
        ]
        self.config.write_text("\n".join([f"listener {self.port} {HOST}", *lines]) + "\n")
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        assert MOSQUITTO is not None
        log = (self.folder / "log").open("ab")
        self.process = subprocess.Popen([MOSQUITTO, "-c", str(self.config)], stdout=log, stderr=log)
        log.close()

        def there() -> bool:
            with socket.socket() as sock:
                return sock.connect_ex((HOST, self.port)) == 0

        until(there)

    def kill(self, how: int = signal.SIGKILL) -> None:
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait()
            self.process = None

    def publish(self, topic: str, *bodies: str, **options: Any) -> None:
        messages: list[Any] = [{"topic": topic, "payload": each, "qos": 1, **options} for each in bodies]
        from paho.mqtt import publish

        publish.multiple(messages, HOST, self.port)


@contextmanager
def broker_in(folder: Path, *more: str) -> Iterator[Broker]:
    """A running broker with its files in a new folder."""
    folder.mkdir()
    made = Broker(folder, *more)
    made.start()
    try:
        yield made
    finally:
        made.kill()
