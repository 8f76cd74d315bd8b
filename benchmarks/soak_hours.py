"""The long soak's load: a fixed set of queries and feeds under steady pushes of new terms and updates.

It runs with the default settings, so that memory has to become steady once `retention` (one hour) has passed.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable

from .soak_load import TRIPLES, XSD_INTEGER, Client, E, Load, SoakError

UPDATED = 2_000  # subjects of the updates; each update replaces the name of one, by a name never used before
PUSHERS = 2
STREAMS = ("a", "b", "c")


def _queries() -> list[str]:
    """18 queries over windows of several kinds, derived streams and the store; with the probe they are 19."""
    texts = []
    for name, seconds in zip(STREAMS, (10, 30, 60), strict=True):
        stream = f"STREAM <{E}{name}>"
        texts += [
            f"SELECT ?x ?v WHERE {{ {stream} [RANGE {seconds}s] {{ ?x <{E}value> ?v }} FILTER(?v > 97) }}",
            f"SELECT (COUNT(*) AS ?n) (MAX(?v) AS ?m) WHERE {{ {stream} [RANGE {seconds}s SLIDE 5s] "
            f"{{ ?x <{E}value> ?v }} }}",
            f"SELECT ?k (AVG(?v) AS ?m) WHERE {{ {stream} [RANGE {seconds}s SLIDE 2s] "
            f"{{ ?x <{E}value> ?v . ?x <{E}kind> ?k }} }} GROUP BY ?k",
            f"SELECT ?x ?n WHERE {{ {stream} [RANGE 5s] {{ ?x <{E}kind> ?k . ?x <{E}value> ?v }} "
            f"?k <{E}name> ?n FILTER(?v > 95) }}",
            f"SELECT ?x WHERE {{ {stream} [TRIPLES 500] {{ ?x <{E}value> ?v }} FILTER(?v < 2) }}",
        ]
    return [
        *texts,
        f"SELECT ?x ?y WHERE {{ STREAM <{E}a> [NOW] {{ ?x <{E}kind> ?k }} "
        f"STREAM <{E}b> [RANGE 2s] {{ ?y <{E}kind> ?k . ?y <{E}value> ?v }} FILTER(?v > 97) }}",
        f"SELECT ?n (COUNT(?s) AS ?c) WHERE {{ ?s <{E}kind> ?k . ?s <{E}name> ?n }} GROUP BY ?n",
        f"SELECT ?s ?n WHERE {{ ?s <{E}name> ?n . ?s <{E}kind> <{E}k3> }}",
    ]


class LongLoad(Load):
    """19 queries and 5 feeds; pushes of terms that never come again, and updates that replace names."""

    def start(self) -> list[threading.Thread]:
        """Load the subjects, register the queries and begin."""
        client = Client(self.url)
        names = "".join(
            f'<{E}u{each}> <{E}name> "first {each}" .\n<{E}u{each}> <{E}kind> <{E}k{each % 20}> .\n'
            for each in range(UPDATED)
        )
        kinds = "".join(f'<{E}k{each}> <{E}name> "kind {each}" .\n' for each in range(20))
        client.call("POST", "/store?default", (names + kinds).encode(), TRIPLES)
        for number, text in enumerate(_queries()):
            client.call("POST", "/queries", json.dumps({"query": text, "name": f"q{number}"}).encode())
            self.done["registrations"] += 1
        works: list[Callable[[Client, random.Random], None]] = [self.commit]
        works += [self._pusher(each) for each in range(PUSHERS)]
        works += [self._feed(name) for name in ("q0", "q2", "q8", "q17")]
        return super().start() + [self._thread(work) for work in works]

    def works(self) -> list[Callable[[Client, random.Random], None]]:
        """The probe and the subscriber of its feed, which is the fifth."""
        return [self.listen, self.probe]

    def _pusher(self, part: int) -> Callable[[Client, random.Random], None]:
        def push(client: Client, chance: random.Random) -> None:
            for number in self._every(PUSHERS / self.options.pushes):
                subject = f"{E}s{part}-{time.time_ns()}-{number}"
                lines = "".join(
                    f'<{subject}-{each}> <{E}value> "{chance.randrange(100)}"^^<{XSD_INTEGER}> .\n'
                    f"<{subject}-{each}> <{E}kind> <{E}k{chance.randrange(20)}> .\n"
                    f'<{subject}-{each}> <{E}label> "label {chance.random()}" .\n'
                    for each in range(self.options.elements)
                )
                path = f"/streams?iri={E}{STREAMS[number % len(STREAMS)]}"
                client.call("POST", path, lines.encode(), TRIPLES, allowed=(429,))
                self.done["pushes"] += 1

        return push

    def _feed(self, name: str) -> Callable[[Client, random.Random], None]:
        def follow(client: Client, chance: random.Random) -> None:
            last = None
            for _, number, _ in client.events(f"/queries/{name}/results", None):
                if number is not None:
                    if last is not None and number != last + 1:
                        raise SoakError(f"the feed of {name} gave {number} after {last}")
                    last = number
                    self.done["events"] += 1
                if self.stopping.is_set():
                    return

        return follow

    def commit(self, client: Client, chance: random.Random) -> None:
        """Replace the name of one subject by a name that is new."""
        for number in self._every(1 / self.options.updates):
            subject = f"<{E}u{chance.randrange(UPDATED)}>"
            text = (
                f"DELETE {{ {subject} <{E}name> ?old }} "
                f'INSERT {{ {subject} <{E}name> "name {time.time_ns()} {number}" }} '
                f"WHERE {{ {subject} <{E}name> ?old }}"
            )
            client.call("POST", "/update", text.encode(), "application/sparql-update", allowed=(429,))
            self.done["commits"] += 1
