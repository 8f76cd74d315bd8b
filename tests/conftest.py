"""What all tests have in common."""

import gc
import os
import ssl
import sys
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import cache
from itertools import count
from typing import Any

import pytest
from httpx._transports import default
from hypothesis import settings

from tests.examples import examples

# Laws that do not say how many examples they try.
settings.register_profile("few", max_examples=examples(100))
settings.load_profile("few")

# Spark's processes live for seconds here: compiling their code well costs more than it gains.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

# Python would look for cyclic garbage after every 700 objects; generating examples makes millions.
gc.set_threshold(20_000, 10, 10)


_set_aside = count(1)


def set_aside() -> None:
    """Let garbage go, and spare later collections what stays: modules, grammars, caches.

    Closing a store collects all garbage, and one test may close many. What was set aside and has become
    garbage since goes every 20 files.
    """
    if next(_set_aside) % 20 == 0:
        gc.unfreeze()
    gc.collect()
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """One worker more than processors for ``-n auto``: a fifth of the time tests wait for others."""
    if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ:
        return None
    return 1 + (len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)


@pytest.fixture(autouse=True, scope="session")
def patterns_of_plain_lines() -> None:
    """Make what the first reader of lines makes: on a busy machine it takes longer than an example may."""
    from quadrill.store.documents.statements import LINE_FORMATS, read_statements

    line = "<urn:s> <urn:p> <urn:o> .\n"
    for each in LINE_FORMATS:
        for text in (line, line + line, line.replace("<urn:s>", "_:s")):
            read_statements(text, each)


@pytest.fixture(autouse=True, scope="session")
def certificates_read_once() -> Iterator[None]:
    """Share one TLS context: each client of httpx would read all certificates again, in 30 ms of CPU."""
    made = default.create_ssl_context
    shared = cache(made)

    def context(verify: Any = True, cert: Any = None, trust_env: bool = True) -> ssl.SSLContext:
        return (shared if verify is True and cert is None else made)(verify, cert, trust_env)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(default, "create_ssl_context", context)
        yield


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as slow the cases that the mark ``slow_cases`` names, or that ``always`` does not name."""
    for item in items:
        for name in ("always", "slow_cases"):
            mark = item.get_closest_marker(name)
            if mark is not None and isinstance(item, pytest.Function):
                named = any(fnmatchcase(item.callspec.id, each) for each in mark.args)
                if named == (name == "slow_cases"):
                    item.add_marker(pytest.mark.slow)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Set aside what collecting thousands of tests made."""
    set_aside()


class Collections:
    """Leaves the collections of this process as they are, in place of those of a server (`YoungCollections`).

    A server that stops takes back what was set aside, here all of the tests: each store that is closed then
    would look through it.
    """

    def start(self) -> None:
        """Go on as before: the start of a server holds collections up."""
        gc.enable()

    def stop(self) -> None:
        """Nothing was changed."""


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Let servers of this process leave its collections alone."""
    running = sys.modules.get("quadrill.app.running")
    if running is not None:
        running.YoungCollections = Collections  # type: ignore[attr-defined]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """Set aside after the last test of each file what the file leaves behind."""
    yield
    if nextitem is not None and nextitem.path != item.path:
        set_aside()
