"""An engine for tests: not threaded, a clock driven by hand, a store in memory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from pyoxigraph import NamedNode

from quadrill.app.describing.queries import describe
from quadrill.continuous.clock import ManualClock
from quadrill.continuous.engine import Engine, EngineSettings, Registration
from quadrill.continuous.evaluate.evaluator import Evaluator
from quadrill.continuous.evaluate.recomputing import ReferenceEvaluator
from quadrill.continuous.queries.prepare import PreparedQuery
from quadrill.continuous.streams.push_call import PushCall
from quadrill.store.dictionary import TermDictionary
from quadrill.store.quads.options import StoreOptions
from quadrill.store.quads.quad_store import QuadStore
from quadrill.store.sweep import SweepPace

E = "http://example.org/"
S = E + "s"
DAY = 86_400_000
PREFIX = f"PREFIX : <{E}>\n"
NOW = "SELECT ?x WHERE { STREAM :s [NOW] { ?x :seen ?v } }"
RANGE = "SELECT ?x WHERE { STREAM :s [RANGE 10s] { ?x :seen ?v } }"


class Bench:
    """Store, clock and engine with short ways to use them."""

    def __init__(
        self,
        registry: Any = None,
        store: QuadStore | None = None,
        make_evaluator: Any = None,
        **settings: Any,
    ) -> None:
        self.clock = ManualClock(0)
        self.store = store or QuadStore.open(None, StoreOptions(clock_ms=self.clock.now_ms))
        settings.setdefault("threaded", False)
        known = EngineSettings(**settings)
        self.engine = Engine(
            self.store, registry, clock=self.clock, settings=known, make_evaluator=make_evaluator
        )

    def register(self, name: str, text: str, **options: Any) -> dict[str, Any]:
        """Register a text with the prefix ``:``."""
        members = {"query": text if "REGISTER" in text else PREFIX + text, **options}
        self.engine.queries.register(Registration.from_json(members, name=name))
        return describe(self.engine, name)

    def push(self, at: int | None, *names: str, stream: str = S, **options: Any) -> dict[str, Any]:
        """Push one element that says that these things were seen."""
        body = "".join(f'<{E}{name}> <{E}seen> "x" .\n' for name in names)
        return self.engine.streams.push(
            PushCall(stream, "application/n-triples", at=at, **options), body.encode()
        )

    def lines(self, *events: tuple[int | None, str], stream: str = S, **options: Any) -> dict[str, Any]:
        """Push one line per event."""
        lines = [
            json.dumps({"at": at, "data": f'<{E}{name}> <{E}seen> "x" .'} if at is not None
                       else {"data": f'<{E}{name}> <{E}seen> "x" .'})
            for at, name in events
        ]  # fmt: skip
        return self.engine.streams.push(
            PushCall(stream, "application/x-ndjson", **options), "\n".join(lines).encode()
        )

    def told(self, name: str) -> list[tuple[Any, ...]]:
        """All that the feed keeps: (kind, at, names of ?x)."""
        return [self._short(event) for event in self.engine.queries.feed(name).subscribe(0).take()]

    def _short(self, event: Any) -> tuple[Any, ...]:
        document = json.loads(event.data)
        if "results" in document:
            rows = [
                row["x"]["value"].rpartition("/")[2] for row in document["results"]["bindings"] if "x" in row
            ]
            return event.kind, document["at"], "".join(sorted(rows))
        return event.kind, document


@contextmanager
def bench(**options: Any) -> Iterator[Bench]:
    """A running engine that is stopped at the end."""
    one = Bench(**options)
    one.engine.start()
    try:
        yield one
    finally:
        one.engine.stop()
        if options.get("store") is None:
            one.store.close()


def sweep_always(patch: pytest.MonkeyPatch, ids: int) -> None:
    """Dictionaries are swept all the time, in slices of a few ids."""
    patch.setattr(TermDictionary, "due", True)
    init = TermDictionary.__init__
    pace = SweepPace(slice=ids, least=ids, per_term=0)
    patch.setattr(TermDictionary, "__init__", lambda self, _=None: init(self, pace))


def all_held_is_known(terms: TermDictionary) -> None:
    """No id that somebody holds was forgotten."""
    held = {term_id for holder in terms.holders() for row in holder() for term_id in row}
    known = terms.text_of.keys() | terms.compact.texts.keys()
    assert [term_id for term_id in held if term_id > 0 and term_id not in known] == []


def tick(engine: Engine) -> None:
    """Look at the clock now: arrival-stamped streams, idle marks, timers."""
    parts = engine.parts
    parts.sequencer.write_unsynced_records()
    engine.lifecycle.restart_failed()
    parts.sources.run_due()
    with parts.sequencer.paused:
        parts.router.timetable.run_due()
    parts.sequencer.wait_for_all()


def reference_evaluator(
    prepared: PreparedQuery, store: QuadStore, quoted_asserted: frozenset[NamedNode]
) -> Evaluator:
    """For an engine all of whose queries are evaluated by definition."""
    return ReferenceEvaluator(prepared.query, store, prepared.options(quoted_asserted))
