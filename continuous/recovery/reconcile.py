"""After a replay: the queries of the registry and those of the journal become the same."""

from __future__ import annotations

from ..durable.journal import Journal
from ..lifecycle.lifecycle import QueryLifecycle
from ..lifecycle.parts import EngineParts
from ..queries.registration import Registration


def reconcile(parts: EngineParts, lifecycle: QueryLifecycle, journal: Journal) -> None:
    """Let the registry decide: what it has and the journal has not begins, what it has not ends."""
    parts.statics.end_replay()
    stored = {record.name: record for record in parts.catalogue.stored()}
    for entry in parts.catalogue.entries():
        if entry.name not in stored:
            parts.catalogue.discard(entry)
            lifecycle.detach(entry, dropped=True)
    for name, record in stored.items():
        existing = parts.catalogue.find(name)
        if existing is None:
            newest = journal.results.newest(name)
            lifecycle.restore(record, newest)
        elif existing.created_ms != record.created_ms:
            lifecycle.detach(existing)
            lifecycle.restore(record, None, existing.feed)
        elif existing.registration.options() != dict(record.options):
            document = {"query": record.text, "dialect": record.dialect, **record.options}
            existing.registration = Registration.from_json(document, name=name)
            if existing.running is not None:
                parts.attachments.change(existing.running, existing.registration)
    for entry in parts.catalogue.entries():
        if entry.pending is not None and entry.pending.running is None:
            lifecycle.make(entry, entry.pending)
    numbers = [entry.feed.number for entry in parts.catalogue.entries()]
    parts.sequencer.call(lambda: journal.results.keep_only(numbers))
