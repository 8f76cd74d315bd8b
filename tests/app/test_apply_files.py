"""Files that declare: read, written, planned; without a server."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quadrill.app.commands.arguments import OfflineError, UsageError
from quadrill.app.commands.declared import Declared, read_files
from quadrill.app.commands.plan import ObjectChanges, plan, stream_differences, with_references
from quadrill.app.commands.toml_text import write_toml
from quadrill.app.commands.yaml_text import read_yaml, write_yaml
from quadrill.store.errors import ReportedError, UnsupportedError

VALUES = st.recursive(
    st.text()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
TEXTS = st.text(alphabet='a"\\\n\r\t\x7f$é')


def declared(folder: Path, text: str, name: str = "a.toml", **environment: str) -> dict[str, Any]:
    (folder / name).write_text(text, "utf-8")
    found, _ = read_files([folder / name], environment)
    return {f"{each.section}.{each.name}": dict(each.members) for each in found}


@given(st.dictionaries(st.text(), st.dictionaries(st.text(), VALUES | TEXTS, max_size=3), max_size=3))
def test_toml_is_read_as_it_was_written(entries: dict[str, dict[str, Any]]) -> None:
    document = {"streams": entries}
    assert tomllib.loads(write_toml(document)) == document


@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]) | st.sampled_from('\n"\\: #-')))
def test_yaml_is_read_as_it_was_written(text: str) -> None:
    document = {"queries": {"no": {"query": text, "t0": 12}}}
    assert read_yaml(write_yaml(document)) == document


def test_null_is_nothing_that_toml_has() -> None:
    with pytest.raises(OfflineError, match=r"streams\.a has null"):
        write_toml({"streams": {"a": {"mapping": {"jsonld": {"@context": {"x": None}}}}}})


def test_variables_are_replaced_and_secrets_become_variables(tmp_path: Path) -> None:
    text = """[sources."a.b"]\nkind = "k${A}${A}"\nstream = "$${A}$A"\nheaders = "${H}"\n"""
    assert declared(tmp_path, text, A="1", H='{"X": "y"}') == {
        "sources.a.b": {"kind": "k11", "stream": "${A}$A", "headers": {"X": "y"}}
    }
    taken: dict[str, str] = {}
    for name in ("a.b", "a-b"):
        found = with_references("sources", name, {"secret": "***", "url": "x${y}"}, taken)
        assert found["url"] == "x$${y}"
    assert found["secret"] == "${QUADRILL_SOURCE_A_B_SECRET_}"
    assert list(taken.values()) == ["sources.a.b: secret", "sources.a-b: secret"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[streams.a]\niri = '${A}'", "a.toml: streams.a: iri: the environment has no variable A"),
        ("[streams.a.mapping]\ntime = '${A'", "streams.a: mapping.time: ${A names no variable"),
        ("[streams.a]\niri = '${a-b}'", "${a-b} names no variable"),
        ("[stream.a]", "there is no section 'stream'"),
        ("[streams]\na = 1", "streams.a must have members"),
        ("streams = 1", "streams must have a name"),
        ("[streams.'a b']", "'a b' is not a valid name"),
        ("[prefixes]\na = 1", "prefixes.a: a prefix stands for an IRI"),
        ("[queries.q]\noutput = 'istream'", "queries.q needs one of query"),
        ("[queries.q]\nquery = 'x'\nfile = 'y'", "queries.q needs one of query"),
        ("[queries.q]\nfile = 'none.rq'", "queries.q: file none.rq: No such file"),
        ("[queries.q]\nfile = 1", "queries.q: file must be a path"),
        ("[queries.q]\nquery = 'x'\nname = 'r'", "name differs"),
        ("[sources.s]\nheaders = '{'", "sources.s: headers is not a JSON object"),
        ("[streams.a]\nlateness = nan", "lateness: nan is not a JSON value"),
        ("[streams.a", "a.toml is not valid TOML: "),
    ],
)
def test_faults_tell_their_place(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(ReportedError) as caught:
        declared(tmp_path, text)
    assert told in caught.value.message


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("streams:\n  a: {}\n  a: {}\n", "the name 'a' stands twice (at line 3, column 3)"),
        ("streams: [", "a.yaml is not valid YAML: "),
        ("- a", "must have sections"),
        ("streams:\n  1: {}\n", "streams.1: the name must be a text"),
        ("streams:\n  a: {mapping: {1: 2}}\n", "streams.a: mapping: the name 1 must be a text"),
        ("streams: &a\n  a: {b: *a}\n", "nested deeper than 100"),
        ("streams:\n  a: {lateness: !!binary aa==}\n", "is not a JSON value"),
        ("streams:\n  a: {lateness: !!python/object:os.system {}}\n", "could not determine a constructor"),
    ],
)
def test_faults_of_yaml_tell_their_place(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(ReportedError) as caught:
        declared(tmp_path, text, "a.yaml")
    assert told in caught.value.message


def test_yaml_is_read(tmp_path: Path) -> None:
    text = (
        "queries:\n  q:\n    query: |\n      a\n      b\n    t0: 2024-01-01T00:00:00Z\n    output:\nsinks:\n"
    )
    found = declared(tmp_path, text, "a.yml")
    assert found == {"queries.q": {"query": "a\nb\n", "t0": "2024-01-01T00:00:00+00:00"}}
    assert declared(tmp_path, "", "a.yml") == {}


def test_yaml_needs_its_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "quadrill.app.commands.yaml_text", raising=False)
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(UnsupportedError) as caught:
        declared(tmp_path, "streams:\n", "a.yaml")
    assert "quadrill[yaml]" in (caught.value.hint or "")
    with pytest.raises(UsageError):
        declared(tmp_path, "", "a.json")


def test_two_files_do_not_declare_the_same(tmp_path: Path) -> None:
    for name in ("a.toml", "b.toml"):
        (tmp_path / name).write_text("[streams.s]")
    with pytest.raises(OfflineError, match=r"b\.toml: streams\.s is declared in .*a\.toml, too"):
        read_files([tmp_path / "a.toml", tmp_path / "b.toml"], {})


def test_steps_stand_in_the_order_of_what_needs_what() -> None:
    wanted = [
        Declared(section, name, {}, Path("f"))
        for section, name in [("sinks", "k"), ("queries", "q"), ("queries", "p"), ("streams", "s")]
    ]
    steps = plan(
        wanted,
        {"queries": {"q", "p", "old"}, "streams": {"s0", "made"}},
        {("queries", "p"): ObjectChanges.of(["query"], {"query": "a"}, {"query": "b"})},
        {"queries": ["old", "q"], "streams": ["s0"]},
    )
    assert [(each.action, each.section, each.name) for each in steps] == [
        ("remove", "queries", "old"),
        ("remove", "streams", "s0"),
        ("create", "streams", "s"),
        ("same", "queries", "q"),
        ("change", "queries", "p"),
        ("create", "sinks", "k"),
    ]


DESCRIBED = {
    "declared": True, "iri": "http://e/s", "lateness": "2s", "idle_timeout": "5s", "retention": "1h",
    "stamping": "event", "late": "drop", "quoted_asserted": False, "mapping": None, "clock": "event",
    "timestamp_property": "http://www.w3.org/ns/prov#generatedAtTime",
}  # fmt: skip


@pytest.mark.parametrize(
    ("members", "differs"),
    [
        ({}, ()),
        ({"lateness": 2000, "retention": "60m", "timestamp_property": ""}, ()),
        ({"lateness": "soon"}, ("lateness",)),
        ({"late": "admit", "iri": "http://e/t"}, ("late", "iri")),
        ({"mapping": {"construct": "x", "header": True}}, ("mapping",)),
        ({"unknown": 1}, ("unknown",)),
    ],
)
def test_streams_are_compared_by_what_is_meant(members: dict[str, Any], differs: tuple[str, ...]) -> None:
    assert stream_differences(members, DESCRIBED) == differs


def test_a_mapping_that_says_the_same_is_the_same() -> None:
    described = DESCRIBED | {"mapping": {"construct": "x"}}
    given = {"mapping": {"construct": "x", "header": True}}
    assert stream_differences(given, described) == ()
    assert stream_differences({}, described) == ("mapping",)
