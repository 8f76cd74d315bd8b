"""The parser refuses what docs/coming-from.md calls absent; a list has the features that no test can see."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from quadrill.continuous.language import parse
from quadrill.store.errors import QueryTextError

PAGE = Path(__file__).parent.parent / "docs" / "coming-from.md"
_BLOCK = "SELECT * WHERE {{ STREAM <urn:s> [{}] {{ ?a ?b ?c }} }}"
REFUSED = {
    "2.0: `FUTURE d`": _BLOCK.format("FUTURE 1m"),
    "`PATTERN` with `*`, `+` or an alternative": (
        "SELECT * WHERE { SEQ { STREAM <urn:s> { ?a ?b 1 } REPEAT * ; STREAM <urn:s> { ?a ?b 2 }} WITHIN 1m }"
    ),
    "`CUMULATE`": _BLOCK.format("CUMULATE 1m"),
}
"""A text for each absent feature of query texts, by the left cell of its row."""
NO_TEST_SEES = {
    "`SKOLEM`, SWRL": "features of RDFox's rule language, which no rule text of this server resembles",
    "OWL Horst, OWL Max, OWL 2 QL": "names of rule sets; test_comparison.py compares the built-in sets",
    "`/ds/patch`": "no route reads RDF Patch; a route that does would be described in docs/http-api.md",
    "`/$/datasets`": "a server has one dataset",
    "rights for each graph": "roles are for the whole server, tested in tests/app/test_security.py",
    "`text:query`": "no extra installs a full-text index",
    "`/repositories/r/transactions`": "no route begins a transaction",
    "plugins, connectors for Lucene and Elasticsearch": "connectors are listed in docs/http-api.md",
    "a cluster": "a data folder belongs to one server, tested in tests/store/test_folder.py",
    "`makeTemp`, `remove`, `drop`, backward rules": "builtins of Jena's rule language",
}


def absent_features() -> set[str]:
    """The left cells of the rows whose right cell begins with ``not there``."""
    return set(re.findall(r"^\| (.*?) \| not there", PAGE.read_text("utf-8"), re.MULTILINE))


def test_every_absent_feature_is_refused_or_listed() -> None:
    assert absent_features() == REFUSED.keys() | NO_TEST_SEES.keys()


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED)
def test_the_parser_refuses_an_absent_feature(text: str) -> None:
    with pytest.raises(QueryTextError):
        parse(text)
