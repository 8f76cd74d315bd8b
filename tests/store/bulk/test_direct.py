"""Bulk loads by the direct pipeline: formats, packings, bad lines, blank nodes, resuming."""

from __future__ import annotations

import bz2
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
import zstandard
from pyoxigraph import BlankNode, NamedNode, Quad

from quadrill.store.bulk import BulkLoader, LoadCancelledError, LoadError, LoadOptions, LoadSummary
from quadrill.store.bulk.parsing import ParseRules, parse_chunk
from quadrill.store.bulk.sources import SourceError, cut, find_sources
from quadrill.store.quads.quad_store import QuadStore

ONE = Quad(NamedNode("urn:s"), NamedNode("urn:p"), NamedNode("urn:o"))


def load(store: QuadStore, folder: Path, *sources: Path | str, **options: Any) -> LoadSummary:
    return BulkLoader(store, folder / "work").run(LoadOptions(tuple(map(str, sources)), **options))


def quarantined(summary: LoadSummary) -> list[dict[str, Any]]:
    assert summary.quarantine is not None
    return [json.loads(line) for line in Path(summary.quarantine).read_text().splitlines()]


@pytest.fixture
def store() -> QuadStore:
    return QuadStore.open(None)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.nt", "<urn:s> <urn:p> <urn:o> .\n"),
        ("a.nq", "<urn:s> <urn:p> <urn:o> .\n"),
        ("a.ttl", "@prefix : <urn:> . <urn:s> <urn:p> <urn:o> ."),
        ("a.trig", "{ <urn:s> <urn:p> <urn:o> }"),
        (
            "a.rdf",
            '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:u="urn:">'
            '<rdf:Description rdf:about="urn:s"><u:p rdf:resource="urn:o"/></rdf:Description></rdf:RDF>',
        ),
        ("a.jsonld", '{"@id": "urn:s", "urn:p": {"@id": "urn:o"}}'),
    ],
)
@pytest.mark.parametrize("ending", ["", ".gz", ".bz2", ".zst"])
def test_every_format_is_loaded_plain_and_packed(
    store: QuadStore, tmp_path: Path, name: str, text: str, ending: str
) -> None:
    pack = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".zst": zstandard.compress}[ending]
    (tmp_path / (name + ending)).write_bytes(pack(text.encode()))
    summary = load(store, tmp_path, tmp_path / (name + ending))
    assert ONE in store.committer.store
    assert (summary.rows, summary.added, summary.bad) == (1, 1, 0)
    assert summary.exact


@pytest.mark.parametrize("name", ["a.nt", "a.nq", "a.ttl", "a.trig"])
@pytest.mark.parametrize("ending", ["", ".gz"])
def test_a_byte_order_mark_is_skipped(store: QuadStore, tmp_path: Path, name: str, ending: str) -> None:
    lines = b"\xef\xbb\xbf<urn:s> <urn:p> <urn:o> .\n<urn:s> <urn:p> <urn:o2> .\n"
    if name == "a.trig":
        lines = b"\xef\xbb\xbf{ <urn:s> <urn:p> <urn:o>, <urn:o2> }"
    (tmp_path / (name + ending)).write_bytes(gzip.compress(lines) if ending else lines)
    summary = load(store, tmp_path, tmp_path / (name + ending))
    assert (summary.rows, summary.added, summary.bad) == (2, 2, 0) and ONE in store.committer.store


@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress])
def test_bad_lines_go_to_the_quarantine_with_their_exact_numbers(
    store: QuadStore, tmp_path: Path, pack: Any
) -> None:
    lines = [b'<urn:s> <urn:p> "%d" .' % number for number in range(1, 501)]
    bad = {7: b"no triple", 8: b'<urn:s> <urn:p> "\xff" .', 250: b"<urn:s> <urn:p> <urn:o>", 499: b"_: ."}
    for number, text in bad.items():
        lines[number - 1] = text
    lines[99:102] = [b"", b"# a comment", b'<urn:s>\t<urn:p>\t"tabs" .\r']
    file = tmp_path / ("a.nt" if pack is bytes else "a.nt.gz" if pack is gzip.compress else "a.nt.bz2")
    file.write_bytes(pack(b"\n".join(lines)))
    summary = load(store, tmp_path, file, chunk_bytes=1_000)
    assert summary.bad == 4
    found = quarantined(summary)
    assert [each["line"] for each in found] == sorted(bad)
    assert {each["file"] for each in found} == {str(file)}
    assert found[0]["text"] == "no triple"
    assert all(each["reason"] for each in found)
    assert store.reader.quad_count == 500 - 4 - 2


def test_a_reason_names_a_column_and_no_line_but_that_of_the_file(store: QuadStore, tmp_path: Path) -> None:
    (tmp_path / "a.nt").write_text(
        '<urn:s> <urn:p> <urn:o> .\n<urn:s> <urn:p> "open .\n<urn:s> <urn:p> 1 .\n'
    )
    reasons = [each["reason"] for each in quarantined(load(store, tmp_path, tmp_path / "a.nt"))]
    assert len(reasons) == 2
    assert all(reason.startswith("column ") and "line" not in reason for reason in reasons), reasons


def test_a_malformed_document_is_left_out_whole_and_others_are_loaded(
    store: QuadStore, tmp_path: Path
) -> None:
    (tmp_path / "bad.ttl").write_text("<urn:a> <urn:p> <urn:o> .\n<urn:b> <urn:p .\n")
    (tmp_path / "good.ttl").write_text("<urn:s> <urn:p> <urn:o> .")
    summary = load(store, tmp_path, tmp_path)
    assert store.reader.quad_count == 1
    (only,) = quarantined(summary)
    assert (only["line"], only["text"]) == (2, "<urn:b> <urn:p .")
    assert "whole document" in only["reason"]


def test_too_many_bad_lines_load_nothing(store: QuadStore, tmp_path: Path) -> None:
    (tmp_path / "a.nt").write_text("<urn:s> <urn:p> <urn:o> .\nbad\nbad too\n")
    with pytest.raises(LoadError, match=r"a\.nt, line 2: .*no bad line is allowed"):
        load(store, tmp_path, tmp_path / "a.nt", max_bad=0)
    with pytest.raises(LoadError, match="at most 1 bad lines"):
        load(store, tmp_path, tmp_path / "a.nt", max_bad=1)
    assert store.reader.quad_count == 0
    assert load(store, tmp_path, tmp_path / "a.nt", max_bad=2).bad == 2


def test_a_load_without_a_good_line_fails(store: QuadStore, tmp_path: Path) -> None:
    (tmp_path / "a.nt").write_text("bad\n")
    with pytest.raises(LoadError, match="line 1: .*no good line"):
        load(store, tmp_path, tmp_path / "a.nt")
    assert store.reader.version == 0


def test_triples_go_to_the_graph_that_is_asked_for(store: QuadStore, tmp_path: Path) -> None:
    (tmp_path / "a.nq").write_text('<urn:s> <urn:p> "x .\\n" .\n<urn:s> <urn:p> "y" <urn:h> .\n')
    summary = load(store, tmp_path, tmp_path / "a.nq", graph=NamedNode("urn:g"))
    assert [quad.object.value for quad in store.reader.quads_for_pattern(graph=NamedNode("urn:g"))] == [
        "x .\n"
    ]
    assert store.reader.quad_count == 1
    assert quarantined(summary)[0]["line"] == 2


def test_blank_nodes_are_one_per_document_and_load(store: QuadStore, tmp_path: Path) -> None:
    text = '_:a <urn:p> _:a .\n_:a <urn:q> "_:a" .\n<urn:_:a> <urn:q> <<( _:a <urn:p> "_:a" )>> .\n'
    for name in ("a.nt", "b.nt"):
        (tmp_path / name).write_text(text)
    load(store, tmp_path, tmp_path / "*.nt")
    blank = [quad for quad in store.reader.quads_for_pattern() if isinstance(quad.subject, BlankNode)]
    assert len({quad.subject for quad in blank}) == 2
    assert len(store.reader.quads_for_pattern(predicate=NamedNode("urn:p"))) == 2
    assert {quad.object.value for quad in blank if quad.predicate.value == "urn:q"} == {"_:a"}
    load(store, tmp_path, tmp_path / "a.nt")
    assert len(store.reader.quads_for_pattern(predicate=NamedNode("urn:p"))) == 3


def test_a_load_is_one_commit_and_a_large_one_only_counts(store: QuadStore, tmp_path: Path) -> None:
    (tmp_path / "a.nq").write_text("<urn:s> <urn:p> <urn:o> <urn:g> .\n<urn:s> <urn:p> <urn:o> .\n" * 3)
    commits: list[Any] = []
    store.subscribers.subscribe(commits.append)
    summary = load(store, tmp_path, tmp_path / "a.nq", exact_bytes=0)
    assert (summary.rows, summary.added, summary.version, summary.exact) == (6, 2, 1, False)
    (commit,) = commits
    assert {key: change.added for key, change in commit.graphs.items()} == {"default": 1, "urn:g": 1}


def test_a_load_that_was_cut_off_goes_on_where_it_stopped(
    store: QuadStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "abc":
        (tmp_path / f"{name}.nt").write_text(f"_:{name} <urn:p> <urn:{name}> .\nbad {name}\n")
    loader = BulkLoader(store, tmp_path / "work")
    options = LoadOptions((str(tmp_path / "*.nt"),))

    class CutError(Exception):
        pass

    def cut_off(progress: Any) -> None:
        if progress.rows >= 2:
            raise CutError

    with pytest.raises(CutError):
        loader.run(options, report=cut_off)
    assert store.reader.quad_count == 0
    parsed: list[str] = []
    original = parse_chunk

    def counted(source: Any, chunk: Any, rules: ParseRules) -> Any:
        parsed.append(Path(source.path).name)
        return original(source, chunk, rules)

    monkeypatch.setattr("quadrill.store.bulk.direct.parse_chunk", counted)
    summary = loader.run(options)
    assert summary.resumed
    assert parsed == ["b.nt", "c.nt"] or parsed == ["c.nt"]
    assert (summary.rows, summary.bad) == (3, 3)
    assert [each["text"] for each in quarantined(summary)] == ["bad a", "bad b", "bad c"]
    assert not loader.run(options).resumed


def test_a_load_that_was_cut_off_after_its_commit_adds_nothing_twice(
    store: QuadStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.nt").write_text("_:a <urn:p> _:b .\n")
    with monkeypatch.context() as patch:
        patch.setattr("quadrill.store.bulk.work.LoadFolder.close", lambda self, summary: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            load(store, tmp_path, tmp_path / "a.nt")
    assert store.reader.quad_count == 1
    assert load(store, tmp_path, tmp_path / "a.nt").resumed
    assert store.reader.quad_count == 1


def test_a_changed_source_is_another_load(store: QuadStore, tmp_path: Path) -> None:
    file = tmp_path / "a.nt"
    file.write_text("<urn:s> <urn:p> <urn:o> .\nbad\n")
    with pytest.raises(LoadError):
        load(store, tmp_path, file, max_bad=0)
    file.write_text("<urn:s> <urn:p> <urn:o> .\n")
    assert not load(store, tmp_path, file, max_bad=0).resumed


def test_a_cancelled_load_leaves_nothing(store: QuadStore, tmp_path: Path) -> None:
    (tmp_path / "a.nt").write_text("<urn:s> <urn:p> <urn:o> .\n")
    with pytest.raises(LoadCancelledError):
        BulkLoader(store, tmp_path / "work").run(
            LoadOptions((str(tmp_path / "a.nt"),)), cancelled=lambda: True
        )
    assert store.reader.version == 0
    assert list((tmp_path / "work").iterdir()) == []


def test_sources_that_cannot_be_read_are_told(store: QuadStore, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x")
    (tmp_path / "a.nt.gz").write_bytes(gzip.compress(b"<urn:s> <urn:p> <urn:o> .\n" * 100)[:-20])
    (tmp_path / "b.nt.zst").write_bytes(b"not packed")
    (tmp_path / "c.nt.zst").write_bytes(zstandard.compress(b"<urn:s> <urn:p> <urn:o> .\n" * 100)[:-5])
    for source, message in [
        ("missing.nt", "there is no file"),
        ("*.nq", "there is no file"),
        ("a.txt", "does not tell its format"),
        ("a.nt.gz", "cannot be read"),
        ("b.nt.zst", "cannot be unpacked"),
        ("c.nt.zst", "cannot be read"),
    ]:
        with pytest.raises(SourceError, match=message):
            load(store, tmp_path, tmp_path / source)
    assert store.reader.version == 0


def test_chunks_hold_each_line_once(tmp_path: Path) -> None:
    file = tmp_path / "a.nt"
    file.write_bytes(b"".join(b'<urn:s> <urn:p> "%s" .\n' % (b"x" * (n % 37)) for n in range(200)))
    sources = find_sources([file])
    for size in (1, 20, 21, 64, 999, 10**6):
        chunks = cut(sources, size)
        rules = ParseRules(None, None, "seed")
        data = b"".join(batch.data for chunk in chunks for batch in parse_chunk(sources[0], chunk, rules))
        assert data == file.read_bytes()


def test_deep_triple_terms_are_bad_lines(store: QuadStore, tmp_path: Path) -> None:
    deep = "<<( <urn:s> <urn:p> " * 600 + "<urn:o>" + " )>>" * 600
    (tmp_path / "a.nt").write_text(f"<urn:s> <urn:p> <urn:o> .\n<urn:s> <urn:p> {deep} .\n")
    summary = load(store, tmp_path, tmp_path / "a.nt")
    assert quarantined(summary)[0]["line"] == 2
    assert "deeper" in quarantined(summary)[0]["reason"]
