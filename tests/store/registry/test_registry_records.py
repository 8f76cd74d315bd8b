"""What is kept comes back as it was given, on SQLite and on PostgreSQL."""

from __future__ import annotations

import threading

import pytest

from quadrill.store.errors import ConflictError, NotFoundError
from quadrill.store.registry import (
    JobRecord,
    QueryRecord,
    Registry,
    RegistryError,
    StoredQueryRecord,
    StreamRecord,
    TokenRecord,
)

QUERY = QueryRecord(
    name="late-departures",
    text="SELECT ?x\nWHERE { STREAM <s> [NOW] { ?x ?p 'é\U0001f6eb' } }",
    dialect="cqels",
    options={"output": "changes", "t0": 0, "refresh": {"every": "30s"}, "parameters": {"n": [1, 2.5, None]}},
    created_ms=1_357_000_000_123,
)
STREAM = StreamRecord(
    name="departures",
    iri="http://example.org/stream/departures",
    lateness_ms=2_000,
    late="admit",
    idle_timeout_ms=None,
    retention_ms=3_600_000,
    timestamp_property="http://www.w3.org/ns/prov#generatedAtTime",
    stamping="event",
    quoted_asserted=True,
    self_contained=True,
    declared=True,
    created_ms=1_357_000_000_456,
)


def test_a_query_comes_back_as_it_was_added(registry: Registry) -> None:
    assert registry.queries.add(QUERY) == QUERY
    assert registry.queries.get(QUERY.name) == QUERY
    assert registry.queries.all() == [QUERY]


def test_a_query_outlives_the_registry_object(registry: Registry, url: str) -> None:
    registry.queries.add(QUERY)
    with Registry.open(url) as again:
        assert again.queries.all() == [QUERY]


def test_an_unknown_query_is_none_and_cannot_be_changed_or_removed(registry: Registry) -> None:
    assert registry.queries.get("nobody") is None
    assert not registry.queries.was_dropped("nobody")
    with pytest.raises(NotFoundError, match="nobody"):
        registry.queries.update("nobody", state="paused")
    with pytest.raises(NotFoundError, match="nobody"):
        registry.queries.remove("nobody")
    assert not registry.queries.was_dropped("nobody")


def test_queries_are_listed_in_the_order_of_registration(registry: Registry) -> None:
    for name in ("zebra", "ant", "mole"):
        registry.queries.add(QueryRecord(name=name, text="ASK {}", created_ms=7))
    assert [record.name for record in registry.queries.all()] == ["zebra", "ant", "mole"]


def test_a_name_is_taken_only_once(registry: Registry) -> None:
    registry.queries.add(QUERY)
    with pytest.raises(ConflictError, match="late-departures"):
        registry.queries.add(QueryRecord(name=QUERY.name, text="ASK {}"))
    assert registry.queries.all() == [QUERY]


def test_an_update_changes_the_named_fields_only(registry: Registry) -> None:
    registry.queries.add(QUERY)
    changed = registry.queries.update(QUERY.name, state="failed", error="division by zero")
    assert (changed.state, changed.error, changed.text) == ("failed", "division by zero", QUERY.text)
    assert registry.queries.get(QUERY.name) == changed


def test_an_update_of_options_replaces_them(registry: Registry) -> None:
    registry.queries.add(QUERY)
    registry.queries.update(QUERY.name, options={"output": "rstream"})
    found = registry.queries.get(QUERY.name)
    assert found is not None and found.options == {"output": "rstream"}


def test_a_field_that_does_not_exist_is_refused(registry: Registry) -> None:
    registry.queries.add(QUERY)
    with pytest.raises(TypeError):
        registry.queries.update(QUERY.name, colour="red")


def test_a_dropped_name_is_known_until_it_is_taken_again(registry: Registry) -> None:
    registry.queries.add(QUERY)
    assert not registry.queries.was_dropped(QUERY.name)
    registry.queries.remove(QUERY.name)
    assert registry.queries.was_dropped(QUERY.name)
    assert registry.queries.get(QUERY.name) is None
    registry.queries.add(QUERY)
    assert not registry.queries.was_dropped(QUERY.name)
    registry.queries.remove(QUERY.name)
    registry.queries.put(QUERY)
    assert not registry.queries.was_dropped(QUERY.name)
    registry.queries.remove(QUERY.name)
    assert registry.queries.was_dropped(QUERY.name)


def test_replacing_a_query_leaves_one(registry: Registry) -> None:
    other = QueryRecord(name=QUERY.name, text="ASK {}")
    registry.queries.add(QUERY)
    assert registry.queries.put(other) == other
    assert registry.queries.all() == [other]


def test_a_stream_is_found_by_name(registry: Registry) -> None:
    registry.streams.add(STREAM)
    assert registry.streams.get("departures") == STREAM
    assert registry.streams.get("arrivals") is None
    assert registry.streams.all() == [STREAM]


def test_neither_the_name_nor_the_iri_of_a_stream_is_taken_twice(registry: Registry) -> None:
    registry.streams.add(STREAM)
    with pytest.raises(ConflictError, match="name departures is taken"):
        registry.streams.add(StreamRecord(name="departures", iri="http://example.org/other"))
    with pytest.raises(ConflictError, match="exists already, named departures"):
        registry.streams.add(StreamRecord(name="other", iri=STREAM.iri))
    registry.streams.add(StreamRecord(name="other", iri="http://example.org/other"))
    with pytest.raises(ConflictError):
        registry.streams.update("other", name="departures")


def test_a_stream_can_be_changed_and_removed(registry: Registry) -> None:
    registry.streams.add(STREAM)
    assert registry.streams.update("departures", lateness_ms=5).lateness_ms == 5
    assert registry.streams.update("departures", stamping="arrival").lateness_ms == 5
    registry.streams.remove("departures")
    assert registry.streams.all() == []
    for call in (registry.streams.remove, registry.streams.update):
        with pytest.raises(NotFoundError, match="departures"):
            call("departures")


def test_saved_texts_are_overwritten_listed_by_name_and_removed(registry: Registry) -> None:
    registry.stored_queries.put(StoredQueryRecord("b", "ASK {}", "first", 1))
    registry.stored_queries.put(StoredQueryRecord("a", "ASK {}", created_ms=2))
    registry.stored_queries.put(StoredQueryRecord("b", "SELECT * {}", "second", 3))
    assert [(q.name, q.description) for q in registry.stored_queries.all()] == [("a", ""), ("b", "second")]
    registry.stored_queries.remove("a")
    assert registry.stored_queries.get("a") is None
    with pytest.raises(NotFoundError):
        registry.stored_queries.remove("a")


def test_tokens_are_found_by_hash_only(registry: Registry) -> None:
    token = TokenRecord("ab" * 32, "push", "the weather station", 5)
    registry.tokens.add(token)
    with pytest.raises(ConflictError):
        registry.tokens.add(token)
    assert registry.tokens.get("ab" * 32) == token
    assert registry.tokens.get("cd" * 32) is None
    assert registry.tokens.all() == [token]
    registry.tokens.remove("ab" * 32)
    with pytest.raises(NotFoundError):
        registry.tokens.remove("ab" * 32)


def test_a_job_goes_from_queued_to_done(registry: Registry) -> None:
    job = JobRecord("j-1", "load", request={"source": "a.nq"}, created_ms=1, updated_ms=1)
    registry.jobs.add(job)
    with pytest.raises(ConflictError):
        registry.jobs.add(job)
    registry.jobs.update("j-1", state="running", progress={"rows": 10}, updated_ms=2)
    registry.jobs.update("j-1", state="done", updated_ms=3)
    found = registry.jobs.get("j-1")
    assert found is not None
    assert (found.state, found.progress, found.updated_ms) == ("done", {"rows": 10}, 3)
    assert registry.jobs.all() == [found]
    registry.jobs.remove("j-1")
    for call in (registry.jobs.remove, registry.jobs.update):
        with pytest.raises(NotFoundError, match="j-1"):
            call("j-1")


def test_writers_in_several_threads_lose_nothing(registry: Registry) -> None:
    failures: list[BaseException] = []

    def add(worker: int) -> None:
        try:
            for number in range(10):
                registry.queries.add(QueryRecord(name=f"q-{worker}-{number}", text="ASK {}"))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=add, args=(worker,)) for worker in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(registry.queries.all()) == 40


def test_an_in_memory_registry_is_one_database_for_all_threads() -> None:
    with Registry.open() as registry:
        registry.queries.add(QUERY)
        seen: list[QueryRecord] = []
        thread = threading.Thread(target=lambda: seen.extend(registry.queries.all()))
        thread.start()
        thread.join()
        assert seen == [QUERY]


def test_a_text_that_no_database_can_hold_is_an_error_and_not_a_crash(registry: Registry) -> None:
    with pytest.raises(RegistryError, match="failed"):
        registry.queries.add(QueryRecord(name="q", text="lone surrogate \ud800"))
    assert registry.queries.all() == []
