"""What was kept of texts is taken until something changes that they follow from."""

from __future__ import annotations

import subprocess
import sys

from quadrill.continuous.language.program import sources

_WITHOUT_A_SAY = {
    "quadrill.continuous.algebra.columnar",
    "quadrill.store.changes.commit",
    "quadrill.store.logs.keyed_file",
    "quadrill.store.threads",
}
"""What else the languages import: it takes values along and says nothing about texts."""
_READ = """
import sys
from quadrill.continuous.language.analysis import KeptAnalyses
from quadrill.continuous.language import warm_up
warm_up()
texts = ('REGISTER STREAM <urn:o> AS CONSTRUCT { ?x <urn:q> ?v } FROM NAMED WINDOW <urn:w> ON <urn:s> '
         '[RANGE PT1M STEP PT10S] WHERE { WINDOW <urn:w> { ?x <urn:p> ?v } FILTER(?v > "2020-01-01"^^'
         '<http://www.w3.org/2001/XMLSchema#date>) }',
         'SELECT (AVG(?v) AS ?m) WHERE { STREAM <urn:s> [RANGE 1m] { ?x <urn:p> ?v } ?x <urn:q>+ ?y }')
for text in texts:
    found = KeptAnalyses().analyse(text, None, "http://h/", {})
    found.root, found.split, found.arranged, found.skeleton, found.graphs
modules = {name: made for name, made in sys.modules.items() if name.startswith("quadrill.")}
print(*(name for name, made in modules.items() if not hasattr(made, "__path__")))
"""


def test_it_follows_from_all_that_reads_a_text() -> None:
    ran = subprocess.run([sys.executable, "-c", _READ], capture_output=True, text=True, check=True)
    known = {"quadrill." + name.removesuffix(".py").replace("/", ".") for name, _ in sources()}
    loaded = set(ran.stdout.split())
    assert "quadrill.continuous.language.parser" in loaded
    assert loaded - known - _WITHOUT_A_SAY == set(), "language/program.py does not name them"


def test_it_follows_from_grammars_and_not_from_what_runs_queries() -> None:
    names = {name for name, _ in sources()}
    assert "continuous/language/sparql.lark" in names
    assert not [each for each in names if each.startswith(("continuous/recovery", "continuous/plan"))]
