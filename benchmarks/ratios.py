"""Compare the CPU time per request of two versions in one run; fail if a request costs over 25 % more.

    python -m benchmarks.ratios OLD/bin/quadrill NEW/bin/quadrill

Each argument is the command of an environment in which a version is installed; ``make ratios BASE=COMMIT``
makes both. Both servers run for the whole benchmark. A round sends the same request to one server and then to
the other, and the order alternates. The ratio of a round is the CPU time per request of the new version,
divided by that of the old version; the table has the median over the rounds. A case over the limit is run
a second time with twice the rounds, and fails only if that median is over the limit as well, because a busy
machine disturbs single rounds.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from .request_cost import CASES, Case, Server, measure

LIMIT = 1.25
"""The largest ratio that passes: smaller differences are within the noise of shared machines."""
ELEMENTS = 100
"""Elements of one large push."""
SENSORS = 1000
"""Subjects in the stored graph that the join query reads."""
LONGEST_WARM_UP = 60.0
"""Seconds after which the benchmark begins even if a server is still busy."""
IDLE_SHARE = 0.1
"""Share of one processor below which a server counts as idle."""
_PREFIXES = "PREFIX : <urn:>\n"
_QUERIES = {
    "join": "SELECT ?x ?v ?r WHERE { STREAM :t [TRIPLES 100] { ?x :v ?v } GRAPH :rooms { ?x :in ?r } }",
    "groups": "SELECT ?v (COUNT(?x) AS ?n) WHERE { STREAM :g [TRIPLES 1000] { ?x :v ?v } } GROUP BY ?v",
}
_LINES = "".join(f"<urn:s{number * 7 % SENSORS}> <urn:v> {number % 10} .\n" for number in range(ELEMENTS))
ENGINE_CASES = tuple(
    Case(
        f"push of {ELEMENTS}, {name}",
        "POST",
        f"/streams/{stream}?each=triple",
        "text/turtle",
        _LINES.encode(),
    )
    for name, stream in (("join", "t"), ("groups", "g"))
)


class Comparison(NamedTuple):
    """Median CPU time per request of both versions, in microseconds, and the median ratio of the rounds."""

    old: float
    new: float
    ratio: float


def compare(servers: Sequence[Server], case: Case, rounds: int, clients: int, seconds: float) -> Comparison:
    """Measure a case on both servers in alternation, after a short round that does not count."""
    old, new = servers
    for server in servers:
        measure(server, case, clients, seconds / 4)
    costs: list[tuple[float, float]] = []
    for number in range(rounds):
        cost = {
            server: measure(server, case, clients, seconds)
            for server in ((old, new) if number % 2 == 0 else (new, old))
        }
        costs.append((cost[old], cost[new]))
    return Comparison(
        old=statistics.median(cost_old for cost_old, _ in costs),
        new=statistics.median(cost_new for _, cost_new in costs),
        ratio=statistics.median(cost_new / cost_old for cost_old, cost_new in costs),
    )


def slower_cases(
    servers: Sequence[Server], cases: Sequence[Case], rounds: int, clients: int, seconds: float
) -> Iterator[str]:
    """Print a line for each case, and yield the names of cases that are over the limit twice."""
    for case in cases:
        result = compare(servers, case, rounds, clients, seconds)
        _print_line(case.name, result)
        if result.ratio > LIMIT:
            repeated = compare(servers, case, 2 * rounds, clients, seconds)
            _print_line("  measured again", repeated)
            if repeated.ratio > LIMIT:
                yield case.name


def _print_line(name: str, result: Comparison) -> None:
    print(f"{name:24}{result.old:10.0f}{result.new:10.0f}{result.ratio:8.2f}", flush=True)


def wait_until_idle(server: Server) -> None:
    """Wait until the server has compiled its grammars, for at most `LONGEST_WARM_UP`."""
    until = time.monotonic() + LONGEST_WARM_UP
    while time.monotonic() < until:
        before = server.cpu_seconds()
        time.sleep(0.5)
        if server.cpu_seconds() - before < IDLE_SHARE * 0.5:
            return


@contextmanager
def prepared_server(command: str) -> Iterator[Server]:
    """A running server of one version with the streams, the stored graph and the queries of all cases."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        server = Server(command, folder)
        try:
            server.prepare()
            graph = "".join(f"<urn:s{number}> <urn:in> <urn:r{number % 50}> .\n" for number in range(SENSORS))
            server.put("/store?graph=urn:rooms", "text/turtle", graph.encode())
            for stream in ("t", "g"):
                server.put(f"/streams/{stream}", "application/json", f'{{"iri": "urn:{stream}"}}'.encode())
            for name, text in _QUERIES.items():
                server.put(f"/queries/{name}", "text/plain", (_PREFIXES + text).encode())
            wait_until_idle(server)
            yield server
        finally:
            server.process.terminate()
            server.process.wait()


def main() -> int:
    """Print the table; return 1 if a case is over the limit, else 0."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("commands", nargs=2, metavar="QUADRILL")
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=0.8, help="of each server in each round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="cases with this text in their name")
    options = parser.parse_args()
    cases = [case for case in (*CASES, *ENGINE_CASES) if options.only in case.name]
    with ExitStack() as stack:
        servers = [stack.enter_context(prepared_server(command)) for command in options.commands]
        print(f"{'CPU µs per request':24}{'old':>10}{'new':>10}{'ratio':>8}")
        slower = list(slower_cases(servers, cases, options.rounds, options.clients, options.seconds))
    if slower:
        print(f"over {LIMIT} in two measurements: {', '.join(slower)}", file=sys.stderr)
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
