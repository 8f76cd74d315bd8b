"""The store's operations: graphs, versions, subscribers, snapshots, dumps, backups."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyoxigraph import BlankNode, DefaultGraph, Literal, NamedNode, Quad, RdfFormat, Triple, parse

from quadrill.store.changes.commit import Commit, GraphChange
from quadrill.store.errors import (
    NotFoundError,
    RdfSyntaxError,
    StoreError,
    StoreUnwritableError,
    UnsupportedError,
)
from quadrill.store.formats import rdf_format
from quadrill.store.quads.options import StoreOptions
from quadrill.store.quads.quad_store import QuadStore
from quadrill.store.quads.write_queue import PreconditionError

A, B, P, G, H = (NamedNode(f"http://e/{name}") for name in "abpgh")
XSD = "http://www.w3.org/2001/XMLSchema#"


def quad(subject: object, value: object, graph: object = DefaultGraph()) -> Quad:
    term = value if isinstance(value, (NamedNode, BlankNode, Literal, Triple)) else Literal(value)
    return Quad(subject, P, term, graph)  # type: ignore[arg-type]


@pytest.fixture(params=["memory", "disk"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[QuadStore]:
    quads = QuadStore.open(None if request.param == "memory" else tmp_path / "data")
    yield quads
    quads.close()


def test_an_empty_store_is_at_version_0(store: QuadStore) -> None:
    assert (store.reader.version, store.reader.quad_count, store.reader.graph_counts()) == (
        0,
        0,
        {DefaultGraph(): 0},
    )


def test_apply_adds_and_removes_effectively_and_atomically(store: QuadStore) -> None:
    first = store.writer.apply(add=[quad(A, 1), quad(A, 1), quad(A, 2, G)], cause="test")
    assert (first.version, first.added, first.created, first.cause) == (
        1,
        (quad(A, 1), quad(A, 2, G)),
        (G,),
        "test",
    )
    second = store.writer.apply(add=[quad(A, 1), quad(A, 3)], remove=[quad(A, 2, G), quad(B, 9)])
    assert (second.added, second.removed) == ((quad(A, 3),), (quad(A, 2, G),))
    assert second.graphs == {"default": GraphChange(1, 0), "http://e/g": GraphChange(0, 1)}
    assert store.reader.graph_counts() == {DefaultGraph(): 2, G: 0}
    third = store.writer.apply(drop=[G], create=[H])
    assert (third.dropped, third.created, store.reader.graph_names()) == ((G,), (H,), [H])


def test_a_commit_without_effect_takes_no_version(store: QuadStore) -> None:
    store.writer.apply(add=[quad(A, 1)])
    told: list[Commit] = []
    store.subscribers.subscribe(told.append)
    commit = store.writer.apply(add=[quad(A, 1)], remove=[quad(B, 1)])
    assert (commit.changed, commit.version, store.reader.version, told) == (False, 1, 1, [])


def test_removing_and_adding_the_same_quad_is_no_change(store: QuadStore) -> None:
    store.writer.apply(add=[quad(A, 1, G)])
    assert not store.writer.apply(remove=[quad(A, 1, G)], add=[quad(A, 1, G)]).changed
    assert not store.writer.apply(drop=[G], add=[quad(A, 1, G)]).changed


def test_change_sets_are_in_the_stores_own_forms(store: QuadStore) -> None:
    written = [
        quad(A, Literal("01", datatype=NamedNode(XSD + "integer"))),
        quad(A, Literal("7", datatype=NamedNode(XSD + "byte"))),
        quad(A, Literal("1.50", datatype=NamedNode(XSD + "decimal"))),
        quad(A, Literal("x", language="EN")),
        quad(A, Triple(A, P, Literal("2.0", datatype=NamedNode(XSD + "decimal")))),
    ]
    commit = store.writer.apply(add=written)
    assert set(commit.added) == set(store.reader.quads_for_pattern(graph=DefaultGraph()))
    assert {quad.object.value for quad in commit.added if isinstance(quad.object, Literal)} == {
        "1",
        "7",
        "1.5",
        "x",
    }
    assert not store.writer.apply(add=written).changed
    assert len(store.writer.apply(remove=written).removed) == 5


def test_blank_nodes_keep_their_identity_through_apply(store: QuadStore) -> None:
    node = BlankNode("mine")
    store.writer.apply(add=[quad(node, 1), quad(A, Triple(node, P, node), G)])
    store.writer.apply(add=[quad(node, 2)], remove=[quad(node, 1)])
    assert set(store.reader.quads_for_pattern()) == {quad(node, 2), quad(A, Triple(node, P, node), G)}
    assert store.writer.apply(remove=[quad(A, Triple(node, P, node), G)]).removed == (
        quad(A, Triple(node, P, node), G),
    )


def test_graphs_named_by_blank_nodes_are_created_and_dropped(store: QuadStore) -> None:
    name = BlankNode("g")
    created = store.writer.apply(add=[quad(A, 1, name)])
    assert created.created == (name,) and store.reader.graph_exists(name)
    store.writer.apply(remove=[quad(A, 1, name)])
    assert store.reader.graph_counts() == {DefaultGraph(): 0, name: 0}
    dropped = store.writer.apply(drop=[name])
    assert dropped.dropped == (name,) and store.reader.graph_names() == []
    assert store.writer.apply(create=[name]).created == (name,) and store.reader.graph_exists(name)


def test_put_replaces_a_graph_and_tells_whether_it_was_new(store: QuadStore) -> None:
    created = store.writer.put_graph(G, [quad(A, 1), quad(A, 2)])
    assert created.created == (G,) and set(created.added) == {quad(A, 1, G), quad(A, 2, G)}
    replaced = store.writer.put_graph(G, [quad(A, 2), quad(A, 3)])
    assert (replaced.created, replaced.added, replaced.removed) == ((), (quad(A, 3, G),), (quad(A, 1, G),))
    emptied = store.writer.put_graph(H, [])
    assert emptied.created == (H,) and store.reader.graph_exists(H)
    assert store.writer.put_graph(DefaultGraph(), [quad(A, 1)]).added == (quad(A, 1),)


def test_post_adds_to_a_graph(store: QuadStore) -> None:
    store.writer.put_graph(G, [quad(A, 1)])
    assert store.writer.post_graph(G, [quad(A, 1), quad(A, 2)]).added == (quad(A, 2, G),)
    assert store.writer.post_graph(H, []).created == (H,)
    assert store.writer.post_graph(DefaultGraph(), [quad(A, 5)]).created == ()


def test_delete_drops_a_graph_and_refuses_a_missing_one(store: QuadStore) -> None:
    store.writer.put_graph(G, [quad(A, 1)])
    store.writer.post_graph(DefaultGraph(), [quad(A, 1)])
    gone = store.writer.delete_graph(G)
    assert (gone.removed, gone.dropped) == ((quad(A, 1, G),), (G,))
    with pytest.raises(NotFoundError, match="no graph <http://e/g>"):
        store.writer.delete_graph(G)
    assert store.writer.delete_graph(DefaultGraph()).removed == (quad(A, 1),)
    assert not store.writer.delete_graph(DefaultGraph()).changed


def test_replacing_the_dataset_drops_the_graphs_that_are_not_in_it(store: QuadStore) -> None:
    store.writer.apply(add=[quad(A, 1), quad(A, 1, G)], create=[H])
    commit = store.writer.replace_dataset([quad(A, 2), quad(A, 1, G)])
    assert (commit.added, commit.removed, commit.dropped) == ((quad(A, 2),), (quad(A, 1),), (H,))
    assert store.writer.replace_dataset(()).dropped == (G,) and store.reader.quad_count == 0


def test_a_write_that_expects_another_version_is_refused(store: QuadStore) -> None:
    store.writer.apply(add=[quad(A, 1)])
    with pytest.raises(PreconditionError, match="at version 1"):
        store.writer.update("INSERT DATA { <http://e/a> <http://e/p> 2 }", expected=0)
    assert store.writer.update("INSERT DATA { <http://e/a> <http://e/p> 2 }", expected=1).version == 2


def test_load_is_all_or_nothing_and_its_blank_nodes_are_new(store: QuadStore) -> None:
    turtle = rdf_format("text/turtle")
    assert turtle is not None
    for _ in range(2):
        store.writer.load(b"_:b <http://e/p> 1 .", turtle, graph=G)
    assert store.reader.graph_counts()[G] == 2
    with pytest.raises(RdfSyntaxError) as caught:
        store.writer.load(b"<http://e/a> <http://e/p> 2 .\n<http://e/a> <", turtle)
    assert caught.value.line == 2 and store.reader.version == 2


def test_a_bulk_load_is_one_inexact_commit_with_counts(store: QuadStore, tmp_path: Path) -> None:
    store.writer.apply(add=[quad(A, 1, G)])
    told: list[Commit] = []
    store.subscribers.subscribe(told.append, graphs=[G], predicates=[B])
    nquads = rdf_format("application/n-quads")
    assert nquads is not None
    path = tmp_path / "bulk.nq"
    path.write_text(
        "".join(f'<http://e/a> <http://e/p> "{n}" <http://e/{"gh"[n % 2]}> .\n' for n in range(100))
    )
    commit = store.writer.bulk_load(path, nquads)
    assert (commit.version, commit.exact, commit.added) == (2, False, ())
    assert commit.graphs == {"http://e/g": GraphChange(50, 0), "http://e/h": GraphChange(50, 0)}
    assert told == [commit] and list(store.commits_after(1)) == [commit]
    assert store.reader.graph_counts() == {DefaultGraph(): 0, G: 51, H: 50}
    assert not store.writer.bulk_load(path, nquads).changed
    with pytest.raises(RdfSyntaxError):
        store.writer.bulk_load(b"<http://e/a> <http://e/p> <", nquads)
    with pytest.raises(StoreUnwritableError):
        store.writer.bulk_load(tmp_path / "missing.nq", nquads)
    assert store.reader.version == 2


# --- subscribers ------------------------------------------------------------------------------


def test_subscribers_are_called_once_per_commit_in_order(store: QuadStore) -> None:
    told: list[int] = []
    end = store.subscribers.subscribe(lambda commit: told.append(commit.version))
    for number in range(5):
        store.writer.apply(add=[quad(A, number)])
    end()
    store.writer.apply(add=[quad(A, 99)])
    assert told == [1, 2, 3, 4, 5]


def test_subscribers_see_the_commit_that_they_are_told_of(store: QuadStore) -> None:
    seen: list[tuple[int, int]] = []
    store.subscribers.subscribe(lambda commit: seen.append((store.reader.version, store.reader.quad_count)))
    store.writer.apply(add=[quad(A, 1)])
    store.writer.apply(add=[quad(A, 2)])
    assert seen == [(1, 1), (2, 2)]


def test_subscribers_choose_graphs_and_predicates(store: QuadStore) -> None:
    told: dict[str, list[int]] = {name: [] for name in ("g", "default", "p", "gp", "names")}
    store.subscribers.subscribe(lambda commit: told["g"].append(commit.version), graphs=[G])
    store.subscribers.subscribe(
        lambda commit: told["default"].append(commit.version), graphs=[DefaultGraph()]
    )
    store.subscribers.subscribe(lambda commit: told["p"].append(commit.version), predicates=[P])
    store.subscribers.subscribe(lambda commit: told["gp"].append(commit.version), graphs=[G], predicates=[P])
    store.writer.apply(add=[quad(A, 1)])  # 1
    store.writer.apply(add=[quad(A, 1, G)])  # 2
    store.writer.apply(add=[Quad(A, B, A, G)])  # 3
    store.writer.apply(create=[H])  # 4
    store.writer.apply(drop=[G])  # 5
    assert told == {"g": [2, 3, 5], "default": [1], "p": [1, 2, 5], "gp": [2, 5], "names": []}


def test_a_subscriber_may_write_and_order_is_kept_for_the_others(store: QuadStore) -> None:
    told: list[int] = []

    def follow(commit: Commit) -> None:
        if commit.version < 4:
            store.writer.apply(add=[quad(B, commit.version)], cause="follow")

    store.subscribers.subscribe(follow)
    store.subscribers.subscribe(lambda commit: told.append(commit.version))
    store.writer.apply(add=[quad(A, 1)])
    assert told == [1, 2, 3, 4]


def test_a_subscriber_that_fails_disturbs_nobody(store: QuadStore, caplog: pytest.LogCaptureFixture) -> None:
    told: list[int] = []

    def fail(commit: Commit) -> None:
        raise RuntimeError("broken")

    store.subscribers.subscribe(fail)
    store.subscribers.subscribe(lambda commit: told.append(commit.version))
    assert store.writer.apply(add=[quad(A, 1)]).version == 1
    assert told == [1] and "subscriber failed on commit 1" in caplog.text


def test_a_subscriber_may_hold_a_lock_that_writers_hold(store: QuadStore) -> None:
    """The engine's case: its thread writes while it holds its own lock, which its subscriber takes too."""
    lock = threading.RLock()
    inside = threading.Event()

    def subscriber(commit: Commit) -> None:
        inside.set()
        with lock:
            pass

    store.subscribers.subscribe(subscriber)
    with lock:
        other = threading.Thread(target=store.writer.apply, kwargs={"add": [quad(A, 1)]})
        other.start()
        assert inside.wait(5)
        store.writer.apply(add=[quad(A, 2)])  # would never end if it waited for the other's delivery
    other.join(5)
    assert store.subscribers.wait_delivered(2, 5)


# --- snapshots, results, dumps ----------------------------------------------------------------


def test_a_snapshot_shows_one_version_to_several_queries(store: QuadStore) -> None:
    store.writer.apply(add=[quad(A, 1)])
    with store.reader.snapshot_read() as snapshot:
        writer = threading.Thread(target=store.writer.apply, kwargs={"add": [quad(A, 2)]})
        writer.start()
        writer.join(0.05)
        assert snapshot.version == 1
        assert len(snapshot.solutions("SELECT * { ?s ?p ?o }")[1]) == 1
        assert len(snapshot.quads_for_pattern()) == len(snapshot.quads_for_pattern(graph=DefaultGraph())) == 1
        with store.reader.snapshot_read() as nested:
            assert nested.version == 1
    writer.join(5)
    assert store.reader.version == 2


def test_writing_inside_a_snapshot_is_refused(store: QuadStore) -> None:
    with store.reader.snapshot_read(), pytest.raises(StoreError, match="inside snapshot_read"):
        store.writer.apply(add=[quad(A, 1)])
    with store.reader.snapshot_read(), pytest.raises(StoreError, match="inside snapshot_read"):
        store.writer.bulk_load(b"", rdf_format("text/turtle"))  # type: ignore[arg-type]
    assert store.writer.apply(add=[quad(A, 1)]).version == 1


def test_a_dump_is_one_version_and_names_it_before_the_first_byte(store: QuadStore) -> None:
    store.writer.apply(add=[quad(A, 1), quad(A, 2, G)])
    order: list[object] = []

    class Sink(io.BytesIO):
        def write(self, block: object) -> int:
            order.append("block")
            store.writer.apply(add=[quad(A, 3)])  # a commit while the dump is under way
            return super().write(block)  # type: ignore[arg-type]

    sink = Sink()
    assert store.reader.dump(sink, RdfFormat.N_QUADS, started=order.append) == 1
    assert order[:2] == [1, "block"] and store.reader.version == 2
    assert set(parse(sink.getvalue(), RdfFormat.N_QUADS)) == {quad(A, 1), quad(A, 2, G)}
    only = io.BytesIO()
    store.reader.dump(only, RdfFormat.TURTLE, graph=G, prefixes={"ex": "http://e/"})
    assert b"ex:a ex:p 2 ." in only.getvalue()
    empty: list[int] = []
    store.reader.dump(io.BytesIO(), RdfFormat.N_TRIPLES, graph=H, started=empty.append)
    assert empty == [2]


def test_a_closed_store_says_so(store: QuadStore) -> None:
    store.close()
    store.close()
    for call in (
        lambda: store.reader.query("ASK {}"),
        lambda: store.writer.apply(add=[quad(A, 1)]),
        lambda: store.reader.quads_for_pattern(graph=G),
        store.committer.checkpoint,
    ):
        with pytest.raises(StoreError, match="closed"):
            call()


def test_a_store_in_memory_is_renewed_when_most_of_it_was_deleted() -> None:
    store = QuadStore.open(None, StoreOptions(renew_removed=100))
    first = store.committer.store
    node = BlankNode("kept")
    store.writer.apply(add=[quad(node, 1, G)], create=[H])
    open_result = store.reader.query("SELECT * { GRAPH ?g { ?s ?p ?o } }")
    for number in range(120):
        store.writer.apply(add=[quad(A, number)])
        store.writer.apply(remove=[quad(A, number)])
    assert store.committer.store is not first
    assert store.reader.quads_for_pattern() == [quad(node, 1, G)]
    assert store.reader.graph_counts() == {DefaultGraph(): 0, G: 1, H: 0} and store.reader.graph_exists(H)
    assert (
        len(store.reader.solutions("SELECT * { GRAPH ?g { ?s ?p ?o } }")[1])
        == len(list(open_result.rows()))
        == 1
    )
    assert store.writer.update("DELETE WHERE { GRAPH ?g { ?s ?p ?o } }").version == 242


def test_trouble_in_upkeep_does_not_fail_the_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(version: int) -> None:
        raise StoreUnwritableError("no space")

    with QuadStore.open(tmp_path / "data", StoreOptions(checkpoint_commits=1)) as store:
        with monkeypatch.context() as patch:
            patch.setattr(store.log, "mark_checkpoint", full)
            assert store.writer.apply(add=[quad(A, 1)]).version == 1
        assert "upkeep after version 1: no space" in caplog.text
        assert store.writer.apply(add=[quad(A, 2)]).version == 2


# --- on disk ----------------------------------------------------------------------------------


def test_everything_is_there_after_closing_and_opening(tmp_path: Path) -> None:
    with QuadStore.open(tmp_path / "data") as store:
        commits = [store.writer.apply(add=[quad(A, 1), quad(BlankNode("b"), 2, G)], create=[H], cause="one")]
        commits.append(store.writer.apply(remove=[quad(A, 1)]))
    with QuadStore.open(str(tmp_path / "data")) as store:
        assert (store.reader.version, store.reader.graph_counts()) == (2, {DefaultGraph(): 0, G: 1, H: 0})
        assert list(store.commits_after(0)) == commits
        assert store.reader.quads_for_pattern(graph=G) == [quad(BlankNode("b"), 2, G)]
        assert store.writer.apply(add=[quad(A, 5)]).version == 3


def test_a_backup_opens_as_a_store_and_goes_its_own_way(tmp_path: Path) -> None:
    with QuadStore.open(tmp_path / "data") as store:
        store.writer.apply(add=[quad(A, 1), quad(A, 2, G)])
        assert store.backup(tmp_path / "backup") == 1
        store.writer.apply(add=[quad(A, 3)])
        with QuadStore.open(tmp_path / "backup") as copy:
            assert (copy.reader.version, copy.reader.quad_count, copy.reader.graph_counts()[G]) == (1, 2, 1)
            copy.writer.apply(remove=[quad(A, 1)])
            assert [commit.version for commit in copy.commits_after(0)] == [1, 2]
        assert store.reader.quad_count == 3
        with pytest.raises(StoreUnwritableError, match="not empty"):
            store.backup(tmp_path / "backup")
        assert store.checkpoint_quads(tmp_path / "reader") == 2


def test_a_store_in_memory_has_no_backup() -> None:
    store = QuadStore.open(None)
    assert store.folder is None
    with pytest.raises(UnsupportedError, match="backup of a store in memory"):
        store.backup("anywhere")
    with pytest.raises(UnsupportedError):
        store.checkpoint_quads("anywhere")


def test_upkeep_runs_beside_work(tmp_path: Path) -> None:
    with QuadStore.open(tmp_path / "data", StoreOptions(durable=False)) as store:
        store.writer.apply(add=[quad(A, number) for number in range(100)])
        store.committer.checkpoint()
        store.committer.store.optimize()
        assert store.reader.quad_count == 100 and quad(A, 7) in store.committer.store


@pytest.mark.parametrize("graph", [DefaultGraph(), NamedNode("http://e/_:g")])
@pytest.mark.parametrize(
    "term",
    [
        NamedNode("http://e/_:x"),
        Literal('_:b "quoted" \\ \n\u0001 ü'),
        Literal("<<( _:b )>>", language="en"),
        Triple(NamedNode("http://e/s"), NamedNode("http://e/p"), Literal("_:b")),
        Triple(NamedNode("http://e/s"), NamedNode("http://e/p"), BlankNode("b1")),
        BlankNode("b1"),
    ],
    ids=str,
)
def test_terms_that_look_like_blank_nodes_and_those_that_are_some_keep_what_they_are(
    store: QuadStore, graph: DefaultGraph | NamedNode, term: NamedNode | Literal | Triple | BlankNode
) -> None:
    before = Quad(NamedNode("http://e/s"), NamedNode("http://e/p"), Literal("before"), graph)
    store.writer.apply(add=[before])
    wanted = Quad(NamedNode("http://e/s"), NamedNode("http://e/p"), term, graph)
    store.writer.apply(add=[wanted], remove=[before])
    assert list(store.reader.quads_for_pattern()) == [wanted]
    store.writer.apply(add=[before], remove=[wanted])
    assert list(store.reader.quads_for_pattern()) == [before]
