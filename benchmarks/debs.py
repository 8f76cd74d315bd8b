"""The DEBS 2015 Grand Challenge: reports a second and delay of an output line, by query and length of window.

Run: ``python -m benchmarks.debs [--reports N] [--rate N] [--alone]``. Reports come one after the other, as
``quadrill run --format debs`` feeds them: one push each through the whole engine in memory, up to 64 in line,
and a listener that writes a line whenever the list changed. Q1, Q2 and both at once, over 30, 60, 120 and 240
minutes (Q2's first window is half of that); the windows are full before the clock is started. The delay is
that of the challenge, from the reading of a report to the writing of its line, the others in line included;
with ``--alone`` each report is waited for. CPU time is that of the process. Recomputation is timed on single
reports, in the evaluator alone, and left out where one report would take longer than ``--patience``
seconds.
"""

from __future__ import annotations

import argparse
import io
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from quadrill.app.commands import challenge
from quadrill.app.config import MEMORY, Settings
from quadrill.app.upkeep.garbage import CollectionSchedule
from quadrill.app.wiring import open_services
from quadrill.continuous.clock import ManualClock
from quadrill.continuous.language.registration import Registration
from quadrill.store.quads.quad_store import QuadStore

from . import taxi
from .drive import Driver
from .native import recomputed
from .results import keep

WINDOWS = (30, 60, 120, 240)
MODES = {"Q1": ("q1",), "Q2": ("q2",), "both": ("q1", "q2")}
COLUMNS = ("minutes", "mode", "reports_per_second", "cpu_us", "delay_ms", "p99_ms", "lines")


def text_of(name: str, minutes: int) -> str:
    """The challenge's query over windows of ``minutes``."""
    text = (Path(__file__).parent / f"debs2015-{name}.cqels").read_text("utf-8")
    return taxi.with_windows(text, minutes)


def run(
    mode: str, minutes: int, reports: Sequence[challenge.ChallengeReport], filling: int, line: int
) -> tuple[float, ...]:
    """Reports a second, CPU µs of a report, mean and 99th percentile of the delay, lines written.

    ``line``: so many reports are in line at most, 1 where each is waited for.
    """
    clock = ManualClock(time.time_ns() // 1_000_000)
    services = open_services(Settings(data=MEMORY, feed_history=100), clock=clock, threaded=False)
    collections = CollectionSchedule()
    collections.start()
    try:
        engine = services.engine
        engine.start()
        listeners = []
        for name in MODES[mode]:
            members = {"query": text_of(name, minutes), "name": name} | challenge.OPTIONS
            engine.queries.register(Registration.from_json(members))
            listeners.append(challenge.DelayRecorder(engine.queries.feed(name), io.StringIO()))
        challenge.follow(engine, taxi.STREAM, reports[:filling], listeners, line)
        for listener in listeners:
            listener.delays.clear()
        begin, cpu = time.perf_counter(), time.process_time()
        timed = challenge.follow(engine, taxi.STREAM, reports[filling:], listeners, line)
        seconds, busy = time.perf_counter() - begin, time.process_time() - cpu
        delays = sorted(each for listener in listeners for each in listener.delays)
        mean = sum(delays) / len(delays) if delays else 0.0
        last = delays[int(len(delays) * 0.99)] if delays else 0.0
        return timed / seconds, busy / timed * 1e6, mean, last, len(delays)
    finally:
        collections.stop()
        services.close()


def read(number: int, rate: int) -> Iterator[challenge.ChallengeReport]:
    """The generated trips as the feeder reads them."""
    return challenge.reports(taxi.csv_of(trip) for trip in taxi.trips(number, per_minute=rate))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reports", type=int, default=1000, help="timed reports of each run")
    parser.add_argument("--rate", type=int, default=70, help="reports a minute; 70 is the challenge's mean")
    parser.add_argument("--patience", type=float, default=20, help="seconds that a recomputation may take")
    parser.add_argument("--alone", action="store_true", help="wait for the answer to each report")
    options = parser.parse_args()
    line_of = 1 if options.alone else challenge.MAX_BATCH
    print(("{:>9}{:>6}" + "{:>20}" * 5).format(*COLUMNS))
    lines = []
    for minutes in WINDOWS:
        filling = options.rate * minutes * 11 // 10
        reports = list(read(filling + options.reports, options.rate))
        for mode in MODES:
            figures = run(mode, minutes, reports, filling, line_of)
            line = (minutes, mode, *(round(figure, 3) for figure in figures))
            lines.append(line)
            print(f"{minutes:9}{mode:>6}" + "".join(f"{figure:20.3f}" for figure in figures), flush=True)
    again = []
    for name in ("q1", "q2"):
        for minutes in WINDOWS:
            filling = options.rate * minutes
            trips = taxi.trips(filling + 1, per_minute=options.rate)
            rides = [taxi.element_of(trip, numbered=True) for trip in trips]
            driver = Driver(text_of(name, minutes), QuadStore.open(None))
            spent = recomputed(driver, QuadStore.open(None), rides, filling, 1)
            again.append((minutes, name.upper(), round(spent)))
            print(f"{minutes:9}{name.upper():>6} recomputed: {spent / 1e6:.2f} s a report", flush=True)
            if spent * 4 > options.patience * 1e6:
                break
    keep("debs", {"rate": options.rate, "columns": COLUMNS, "lines": lines, "recomputed": again})


if __name__ == "__main__":
    main()
