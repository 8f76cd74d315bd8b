"""The server under test, as the runners see it."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
from pyoxigraph import Quad, RdfFormat, serialize

from tests.w3c.compare import read_graph
from tests.w3c.manifests import Case, NamedFile, iri_of, path_of


class Endpoint:
    """Loads a case's data and runs its request over HTTP."""

    def __init__(self, client: httpx.Client) -> None:
        self.client = client

    def reset(self, files: tuple[NamedFile, ...]) -> None:
        """Makes the dataset hold exactly these files."""
        self.client.put(
            "/store", content=b"", headers={"Content-Type": "application/n-quads"}
        ).raise_for_status()
        for file in files:
            quads = read_graph(file.path)
            if file.path.suffix == ".trig":
                self._post({}, serialize(quads, format=RdfFormat.N_QUADS), "application/n-quads")
                continue
            triples = {Quad(q.subject, q.predicate, q.object) for q in quads}
            target = {"default": ""} if file.graph is None else {"graph": file.graph}
            self._post(target, serialize(triples, format=RdfFormat.N_TRIPLES), "application/n-triples")
            if file.graph is not None and not triples:
                self.update(f"CREATE SILENT GRAPH <{file.graph}>").raise_for_status()

    def _post(self, target: dict[str, str], body: bytes, media_type: str) -> None:
        answer = self.client.post("/store", params=target, content=body, headers={"Content-Type": media_type})
        answer.raise_for_status()

    def query(self, text: str, accept: str) -> httpx.Response:
        """Runs a query by direct POST."""
        headers = {"Content-Type": "application/sparql-query", "Accept": accept}
        return self.client.post("/query", content=text.encode(), headers=headers)

    def update(self, text: str) -> httpx.Response:
        """Runs an update by direct POST."""
        return self.client.post(
            "/update", content=text.encode(), headers={"Content-Type": "application/sparql-update"}
        )

    def dataset(self) -> bytes:
        """The whole dataset as N-Quads."""
        answer = self.client.get("/store", headers={"Accept": "application/n-quads"})
        answer.raise_for_status()
        return answer.content


def text_of(case: Case) -> str:
    """The case's request; its relative IRIs resolve against the IRI the file is published under."""
    assert case.query is not None
    return f"BASE <{iri_of(case.query)}>\n" + case.query.read_bytes().decode("utf-8")


def data_of(case: Case) -> tuple[NamedFile, ...]:
    """The case's data; without any, the files that its FROM clauses name."""
    if case.data or case.query is None:
        return case.data
    named = re.findall(r"\bFROM\s+(?:NAMED\s+)?<([^>]*)>", case.query.read_text("utf-8"), re.I)
    found: list[NamedFile] = []
    for reference in dict.fromkeys(named):
        path: Path = case.query.parent / reference
        if path.exists():
            found.append(NamedFile(iri_of(path), path_of(iri_of(path))))
    return tuple(found)
