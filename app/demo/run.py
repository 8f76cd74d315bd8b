"""The command ``quadrill demo``, which runs the server with five queries on a week of real flights."""

from __future__ import annotations

import argparse
import contextlib
import math
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ..config import load_settings
from .client import DemoClient, DemoError
from .data import QUERY_FILES
from .data.rdf import instant
from .replay import DemoApi, ReplayPlan, begin_again, replay, rounds
from .summary import FeedFollower, FeedTally, TallyPrinter

if TYPE_CHECKING:
    from quadrill.continuous.engine import Engine

    from ..page.pace import Pace

CATCH_UP_SECONDS = 60.0
"""Maximum seconds that the end of the demo waits for the engine, and then for the feeds."""
SYNC_SECONDS = 0.5
"""Seconds of one wait for the engine, after which the demo checks for a signal."""
PICTURE = "ui/demo"
"""Path of the page that shows the demo, relative to the server's address."""
CHANGED = "\nHalf-way: Atlanta and Chicago are put on the watch list.\n"


class _DemoStoppedError(Exception):
    """Exception that ends the demo after the user's SIGINT or SIGTERM."""


def run(options: argparse.Namespace) -> int:
    """Run the demo in rounds until ``--seconds`` have passed or the user stops it; return the exit code."""
    span_ms = None if options.seconds is None else math.ceil(options.seconds * options.speed * 1000)
    plans = rounds(options.start_ms, span_ms, once=options.once)
    first = next(plans)
    stop = _stop_on_signals()
    with _data_folder(options.data) as folder:
        given = {"data": folder, "port": options.port}
        overrides = {name: value for name, value in given.items() if value is not None}
        settings = load_settings(overrides=overrides)
        if options.source == "mqtt":
            hosts = (*settings.remote_hosts, urlsplit(options.broker).netloc)
            settings = load_settings(overrides=overrides | {"remote_hosts": hosts})
        headers = {"Authorization": f"Bearer {settings.token}"} if settings.token else {}
        # Errors in the options are reported before store and engine are imported.
        from .. import running
        from ..page.pace import Pace

        pace = Pace(options.speed)
        with running.serve(settings, demo=pace) as server, contextlib.suppress(_DemoStoppedError):
            screen = TallyPrinter(as_json=options.json)
            with DemoClient(server.url, settings.token or None) as client:
                client.set_up()
                with _feeder(client, options) as api:
                    screen.say("ready", f"Quadrill is ready at {server.url}", url=server.url)
                    screen.say(
                        "page",
                        f"Open {server.url}{PICTURE} to see the queries at work; Ctrl-C ends the demo.\n",
                        url=f"{server.url}{PICTURE}",
                    )
                    tallies = play(
                        chain((first,), plans), api, server.url, headers,
                        pace=pace, screen=screen, stop=stop,
                        last_ids=lambda: last_ids(server.services.engine, stop),
                    )  # fmt: skip
            if any(tally.error for tally in tallies.values()):
                return 1
    running.leave()


def play(
    plans: Iterable[ReplayPlan],
    api: DemoApi,
    url: str,
    headers: Mapping[str, str],
    *,
    pace: Pace,
    screen: TallyPrinter,
    stop: threading.Event,
    last_ids: Callable[[], Mapping[str, int] | None],
) -> dict[str, FeedTally]:
    """Replay the plans on a server and print the feeds' tallies, until all results have arrived.

    ``last_ids`` waits until the engine has processed all pushes and returns the id of each feed's last event,
    or None after a time-out. The returned dict has the tally of each feed by query name.
    """
    followers = [FeedFollower(url, name, headers) for name in QUERY_FILES]
    tallies = {follower.tally.name: follower.tally for follower in followers}
    reached_ms = 0

    def show(at_ms: int) -> None:
        nonlocal reached_ms
        reached_ms = at_ms
        screen.show(at_ms, tallies.values(), time.monotonic())

    def pause(seconds: float) -> None:
        if stop.wait(seconds):
            raise _DemoStoppedError

    for follower in followers:
        follower.start()
    try:
        for number, plan in enumerate(plans):
            if number > 0:
                begin_again(plan, api)
                begin = instant(plan.start_ms)
                sentence = f"\nRound {number + 1}: the same departures, now from {begin} on.\n"
                screen.say("round", sentence, number=number + 1, start=begin)
            replay(
                plan, api, pace=pace, pause=pause, progress=show,
                changed=lambda at_ms: screen.say("changed", CHANGED, at=instant(at_ms)),
            )  # fmt: skip
        wanted = last_ids()
        if wanted is None or not _await(tallies, wanted, stop):
            screen.say(
                "behind",
                f"\nThe engine needs more than {CATCH_UP_SECONDS:.0f} s to catch up; the counts so far:",
            )
    finally:
        screen.show(reached_ms, tallies.values(), time.monotonic(), final=True)
        for follower in followers:
            follower.stop()
    return tallies


def last_ids(engine: Engine, stop: threading.Event) -> dict[str, int] | None:
    """Wait until the engine has processed all pushes, and return the id of each feed's last event.

    The event ids are None if the engine has not processed all pushes after CATCH_UP_SECONDS. If ``stop`` is
    set, the wait for the engine ends with _DemoStoppedError.
    """
    for _ in range(round(CATCH_UP_SECONDS / SYNC_SECONDS)):
        try:
            engine.sync(SYNC_SECONDS)
        except TimeoutError:
            if stop.is_set():
                raise _DemoStoppedError from None
        else:
            return {name: engine.queries.feed(name).history.last_id for name in QUERY_FILES}
    return None


def _await(tallies: Mapping[str, FeedTally], wanted: Mapping[str, int], stop: threading.Event) -> bool:
    """Wait until each tally has counted the last event of its feed; return False after CATCH_UP_SECONDS."""
    deadline = time.monotonic() + CATCH_UP_SECONDS
    while any(tallies[name].last_id < last_id for name, last_id in wanted.items()):
        if time.monotonic() > deadline:
            return False
        if stop.wait(0.02):
            raise _DemoStoppedError
    return True


@contextlib.contextmanager
def _feeder(client: DemoClient, options: argparse.Namespace) -> Iterator[DemoApi]:
    """Return the demo's client for ``--source http``, or a client that publishes to an MQTT broker."""
    if options.source == "http":
        yield client
        return
    try:
        from .broker import BrokerClient
    except ModuleNotFoundError as error:
        raise DemoError("paho-mqtt is not installed", hint="pip install 'quadrill[mqtt]'") from error
    broker = BrokerClient(client, options.broker)
    try:
        broker.open()
        yield broker
    finally:
        broker.close()


def _stop_on_signals() -> threading.Event:
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda _number, _frame: stop.set())
    return stop


@contextlib.contextmanager
def _data_folder(given: str | None) -> Iterator[str]:
    if given is not None:
        yield given
        return
    with tempfile.TemporaryDirectory(prefix="quadrill-demo-") as folder:
        yield folder
