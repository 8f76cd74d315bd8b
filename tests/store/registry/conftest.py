"""A registry database for each test: SQLite, and a real PostgreSQL where its server can be started."""

from __future__ import annotations

import itertools
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.exc import OperationalError

from quadrill.store.registry import Registry

PASSWORD = "only-for-this-test"
DATABASE_NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def postgresql_url() -> Iterator[str]:
    """The URL of a private PostgreSQL cluster on loopback, without the name of a database."""
    binaries = _server_binaries()
    if binaries is None:
        pytest.skip("no PostgreSQL server binaries (Debian: apt-get install postgresql)")
    user = _server_user()
    if user is None:
        pytest.skip("PostgreSQL does not run as root, and there is no user postgres to run it as")
    folder = Path(tempfile.mkdtemp(prefix="quadrill-postgresql-", dir="/tmp" if user else None))
    port = _free_port()
    server = None
    try:
        _run_initdb(binaries, folder, user)
        with (folder / "log").open("wb") as log:
            server = subprocess.Popen(
                [
                    binaries / "postgres", "-D", folder / "data", "-p", str(port), "-h", "127.0.0.1",
                    "-c", "unix_socket_directories=", "-c", "fsync=off", "-c", "max_connections=40",
                ],
                cwd=folder, stdout=subprocess.DEVNULL, stderr=log, user=user or None,
            )  # fmt: skip
        url = f"postgresql://tester:{PASSWORD}@127.0.0.1:{port}"
        _wait_until_ready(url, server, folder)
        yield url
    finally:
        if server is not None and server.poll() is None:
            server.send_signal(signal.SIGINT)
            server.wait(30)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database of its own for this test."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'registry.sqlite'}"
    server: str = request.getfixturevalue("postgresql_url")
    name = f"test_{next(DATABASE_NUMBERS)}"
    admin = create_engine(f"{server}/postgres", isolation_level="AUTOCOMMIT")
    with admin.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    admin.dispose()
    return f"{server}/{name}"


@pytest.fixture
def registry(url: str) -> Iterator[Registry]:
    with Registry.open(url) as opened:
        yield opened


@pytest.fixture
def run_sql() -> Callable[[str, str], list[tuple[object, ...]]]:
    """Run one statement behind the registry's back."""

    def run(url: str, statement: str) -> list[tuple[object, ...]]:
        engine = create_engine(url)
        try:
            with engine.begin() as connection:
                result = connection.execute(text(statement))
                return [tuple(row) for row in result] if result.returns_rows else []
        finally:
            engine.dispose()

    return run


def _server_binaries() -> Path | None:
    candidates = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: float(path.parent.name))
    on_path = shutil.which("initdb")
    if on_path is not None:
        candidates.append(Path(on_path).resolve().parent)
    found = [path for path in candidates if (path / "initdb").exists() and (path / "postgres").exists()]
    return found[-1] if found else None


def _server_user() -> str | None:
    """The user to run the server as: empty for the present one, None when there is none."""
    if os.getuid() != 0:
        return ""
    try:
        return pwd.getpwnam("postgres").pw_name
    except KeyError:
        return None


def _run_initdb(binaries: Path, folder: Path, user: str) -> None:
    password_file = folder / "password"
    password_file.write_text(PASSWORD)
    if user:
        shutil.chown(folder, user)
        shutil.chown(password_file, user)
    subprocess.run(
        [
            binaries / "initdb", "-D", folder / "data", "-U", "tester", f"--pwfile={password_file}",
            "--auth=scram-sha-256", "-E", "UTF8", "--locale=C", "--no-sync",
        ],
        cwd=folder, check=True, capture_output=True, user=user or None,
    )  # fmt: skip


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_until_ready(url: str, server: subprocess.Popen[bytes], folder: Path) -> None:
    engine = create_engine(f"{url}/postgres")
    deadline = time.monotonic() + 60
    while True:
        try:
            with engine.connect():
                break
        except OperationalError:
            if server.poll() is not None or time.monotonic() > deadline:
                pytest.fail(f"PostgreSQL did not start: {(folder / 'log').read_text()[-2000:]}")
            time.sleep(0.05)
    engine.dispose()
