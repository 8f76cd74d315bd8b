"""What the store exports loads again, in every format that can express it; elsewhere it is 406."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pyoxigraph import (
    BaseDirection,
    BlankNode,
    CanonicalizationAlgorithm,
    Dataset,
    DefaultGraph,
    Literal,
    NamedNode,
    Quad,
    RdfFormat,
    Store,
    Triple,
    parse,
)

from quadrill.app.cli import main
from quadrill.store.documents.serialising import PlainStringWriter
from quadrill.store.quads.quad_store import QuadStore
from tests.examples import examples

from .conftest import LiveServer, problem_of

RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
XSD = "http://www.w3.org/2001/XMLSchema#"
FORMATS = [
    "text/turtle",
    "application/n-triples",
    "application/n-quads",
    "application/trig",
    "application/rdf+xml",
    "application/ld+json",
    "application/trix",
    "application/hex+x-ndjson",
]
COMPLETE = ("text/turtle", "application/n-triples", "application/n-quads", "application/trig")
"""Formats that can express every graph."""


def insert(server: LiveServer, triple: str) -> None:
    assert server.update(f"INSERT DATA {{ {triple} }}").status_code == 204


def get(server: LiveServer, accept: str) -> httpx.Response:
    return server.client.get("/store", params={"default": ""}, headers={"Accept": accept})


INEXPRESSIBLE = [
    ("<http://e/a> <http://e/t> <<( <http://s> <http://p> 1 )>>", "application/ld+json", "JSON-LD cannot"),
    ("<http://e/a> <http://e/t> <<( <http://s> <http://p> 1 )>>", "application/trix", "TriX has no form"),
    (
        "<http://e/a> <http://e/t> <<( <http://s> <http://p> 1 )>>",
        "application/hex+x-ndjson",
        "HexTuples has",
    ),
    ("<http://e/a> <http://e/t> 'x'@en--ltr", "application/hex+x-ndjson", "HexTuples has no form"),
    (f"<http://e/a> <{RDF}li> 'x'", "application/rdf+xml", "RDF/XML cannot express the answer: .*reserved"),
    (f"<http://e/a> <{RDF}Description> 'x'", "application/rdf+xml", "reserved"),
    (
        "<http://e/a> <http://e/5> 'x'",
        "application/rdf+xml",
        "the predicate <http://e/5> whose end is no XML",
    ),
    ("<http://e/a> <http://e/?a&b=> 'x'", "application/rdf+xml", r"the predicate <http://e/\?a&b=>"),
    ("<http://e/a> <http://e/> 'x'", "application/rdf+xml", "the predicate <http://e/>"),
]


@pytest.mark.parametrize(("triple", "accept", "reason"), INEXPRESSIBLE)
def test_what_a_format_cannot_express_is_not_acceptable(
    server: LiveServer, triple: str, accept: str, reason: str
) -> None:
    insert(server, triple)
    query = "CONSTRUCT { ?s ?p ?o } WHERE { ?s ?p ?o }"
    for answer in (get(server, accept), server.query(query, accept)):
        document = problem_of(answer, 406)
        assert document["code"] == "not-acceptable"
        with pytest.raises(AssertionError, match=reason):
            raise AssertionError(document["detail"])
    assert get(server, "text/turtle").status_code == 200


def test_a_predicate_without_an_xml_name_is_found_across_blocks(server: LiveServer) -> None:
    filler = " ".join(f"<http://e/a> <http://e/p> '{'x' * 500}{n}' ." for n in range(120))
    insert(server, f"{filler} <http://e/b> <http://e/5> 'x'")
    assert get(server, "application/rdf+xml").status_code == 406


iris = st.sampled_from(["http://e/a", "http://e/5", "urn:a:b", "http://e/a%20b", "http://é/ü?a=1&b#c"])
nodes = st.one_of(iris.map(NamedNode), st.sampled_from(["b0", "b1"]).map(BlankNode))
predicates = st.one_of(iris, st.sampled_from([f"{RDF}type", f"{RDF}_1", f"{RDF}li", f"{RDF}value"])).map(
    NamedNode
)
texts = st.one_of(
    st.sampled_from(["", " a ", "\r\n\t", '\\"^^<', "]]>", "&<>'\"", "\u0085\u2028", "x\x01", "\ufffe"]),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
)
typed = st.sampled_from(
    [f"{XSD}integer", f"{XSD}decimal", f"{XSD}dateTime", f"{RDF}XMLLiteral", f"{RDF}JSON", "urn:t"]
)
literals = st.one_of(
    st.builds(Literal, texts),
    st.builds(
        lambda text, tag: Literal(text, language=tag), texts, st.sampled_from(["en", "en-us", "x-none"])
    ),
    st.builds(lambda text: Literal(text, language="ar", direction=BaseDirection.RTL), texts),
    st.builds(lambda text, name: Literal(text, datatype=NamedNode(name)), texts, typed),
)
plain = st.one_of(nodes, literals)
terms = st.one_of(plain, st.builds(Triple, nodes, predicates, plain))
graphs = st.lists(st.builds(Triple, nodes, predicates, terms), max_size=6)


def canonical(quads: set[Quad]) -> Dataset:
    dataset = Dataset(quads)
    dataset.canonicalize(CanonicalizationAlgorithm.RDFC_1_0)
    return dataset


@settings(max_examples=examples(40), deadline=None, suppress_health_check=list(HealthCheck))
@given(triples=graphs)
@example(triples=[Triple(NamedNode("http://e/a"), NamedNode("http://e/p"), Literal("\r", language="ar"))])
def test_an_export_loads_again(shared_server: LiveServer, triples: list[Triple]) -> None:
    store, client = shared_server.services.store, shared_server.client
    store.writer.replace_dataset(())
    store.writer.apply(add=[Quad(*triple, DefaultGraph()) for triple in triples])
    before = set(store.reader.quads_for_pattern(graph=DefaultGraph()))
    for accept in FORMATS:
        answer = get(shared_server, accept)
        if accept in COMPLETE:
            assert answer.status_code == 200, answer.text
        if answer.status_code != 200:
            assert problem_of(answer, 406)["code"] == "not-acceptable"
            continue
        target = {"graph": "http://e/again"}
        stored = client.put("/store", params=target, content=answer.content, headers={"Content-Type": accept})
        assert stored.status_code in (201, 204), f"{accept}: {stored.text}\n{answer.text}"
        after = {
            Quad(quad.subject, quad.predicate, quad.object, DefaultGraph())
            for quad in store.reader.quads_for_pattern(graph=NamedNode("http://e/again"))
        }
        assert canonical(after) == canonical(before), f"{accept}: {answer.text}"
        store.writer.delete_graph(NamedNode("http://e/again"))


# --- literals that earlier releases stored --------------------------------------------------------

UNTAGGED = [
    f'<x:a> <x:b> "x"^^<{RDF}langString> .',
    f'<x:a> <x:b> "y\\\\"^^<{RDF}dirLangString> .',
    f'<x:a> <x:b> <<( <x:a> <x:b> "z"^^<{RDF}langString> )>> .',
]
KEPT = [
    f"<x:a> <x:b> <{RDF}langString> .",
    f"<x:a> <{RDF}type> <{RDF}langString> .",
    f'<x:a> <x:b> "\\"^^<{RDF}langString> , ^^rdf:langString "@en .',
    '<x:a> <x:b> "x"@de .',
]


def old_store(lines: list[str]) -> Store:
    """A store with what no document can bring in any more."""
    store = Store()
    store.update("INSERT DATA { " + " ".join(lines) + " }")
    return store


@pytest.mark.parametrize(
    ("rdf_format", "lines"),
    [
        (RdfFormat.N_TRIPLES, [*UNTAGGED, *KEPT]),
        (RdfFormat.N_QUADS, [*UNTAGGED, *KEPT]),
        (RdfFormat.TURTLE, [*UNTAGGED, *KEPT]),
        (RdfFormat.TRIG, [*UNTAGGED, *KEPT]),
        (RdfFormat.JSON_LD, [*UNTAGGED[:2], *KEPT]),
        (RdfFormat.RDF_XML, [*UNTAGGED, *KEPT]),
    ],
)
@pytest.mark.parametrize("block", [1, 7, 10_000])
def test_an_export_writes_language_strings_without_a_tag_as_plain_strings(
    rdf_format: RdfFormat, lines: list[str], block: int
) -> None:
    prefixes = {"rdf": RDF, "l": f"{RDF}lang"} if rdf_format in (RdfFormat.TURTLE, RdfFormat.TRIG) else {}
    dumped = old_store(lines).dump(format=rdf_format, from_graph=DefaultGraph(), prefixes=prefixes)
    assert dumped is not None
    written = bytearray()

    class Into:
        def write(self, data: bytes, /) -> object:
            written.extend(data)
            return None

    writer = PlainStringWriter(Into(), rdf_format, prefixes)
    for at in range(0, len(dumped), block):
        writer.write(dumped[at : at + block])
    writer.finish()
    plain_lines = [line.replace(f"^^<{RDF}langString> )", " )") for line in lines]
    plain_lines[:2] = ['<x:a> <x:b> "x" .', '<x:a> <x:b> "y\\\\" .']
    expected = set(parse("\n".join(plain_lines).encode(), RdfFormat.N_QUADS))
    assert {Quad(*quad.triple, DefaultGraph()) for quad in parse(bytes(written), rdf_format)} == expected


def test_a_check_lists_language_strings_without_a_tag(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "data"
    store = QuadStore.open(folder)
    store.writer.apply(add=list(old_store(UNTAGGED)))
    store.close()
    assert main(["check", "--data", str(folder)]) == 0
    shown = capsys.readouterr().out
    assert shown.count("a language string without a tag, exported as a plain string") == 3
    assert main(["export", "--data", str(folder), str(tmp_path / "out.nq")]) == 0
    assert "langString" not in (tmp_path / "out.nq").read_text()
