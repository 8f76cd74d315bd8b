"""Each kind of window is documented, written, restored and tested: no part of a new kind is forgotten."""

from __future__ import annotations

import ast
import json
import re
from functools import cache
from pathlib import Path

import pytest

from quadrill.continuous.algebra.query import ContinuousQuery, Dialect, WindowSpec
from quadrill.continuous.language import parse
from quadrill.continuous.language.windows import _FORMS, DIALECT_NAMES
from quadrill.continuous.language.write import write
from quadrill.continuous.windows import kinds
from quadrill.continuous.windows.kinds import kind_of
from quadrill.store.errors import QueryTextError

from ..language.test_documentation import EXAMPLES
from ..language.test_documentation import PAGE as LANGUAGES
from ..language.test_windows import text_with
from ..timeline_law import cases
from .specs import SPECS

ROOT = Path(__file__).parents[3]
TESTED_APART = {
    "sequence": "tests/continuous/test_sequences.py",
    "step": "tests/continuous/test_sequences.py",
}
"""Kinds that only SEQ makes: no text has a window of them in brackets."""
KINDS = sorted(kinds._kinds.keys() - TESTED_APART.keys())
WRITTEN_AS_OTHERS = {"grid": "range", "sliding": "range"}
"""A grid is [RANGE] with a step, or [SLIDING]: the kind has no form of its own, the form no kind."""
DIALECTS: tuple[Dialect, ...] = ("cqels", "rspql", "csparql")
FORMS = [(form, dialect) for form in _FORMS for dialect in DIALECTS if dialect in _FORMS[form].dialects]
FOREIGN = [(form, dialect) for form in _FORMS for dialect in DIALECTS if dialect not in _FORMS[form].dialects]
LAWS = "test_windows_obey_their_definition.py"


@cache
def documented() -> tuple[dict[str, list[ContinuousQuery]], list[str]]:
    """The examples of docs/language.md by the kinds of their windows, and those with errors."""
    found: dict[str, list[ContinuousQuery]] = {}
    errors = []
    for _, parameters, text in EXAMPLES:
        try:
            query = parse(text, parameters=json.loads(parameters) if parameters else {})
        except Exception as error:
            errors.append(f"{error!r} in\n{text}")
            continue
        for window in query.windows:
            found.setdefault(window.spec.kind, []).append(query)
    return found, errors


def spec_of(kind: str) -> WindowSpec:
    found, errors = documented()
    assert kind in found, f"docs/language.md has no example with a window of the kind {kind} {errors}"
    return next(window.spec for window in found[kind][0].windows if window.spec.kind == kind)


def sample(form: str) -> str:
    """A window of this form."""
    text = re.sub(r"\bn\b", "2", _FORMS[form].text).replace("?v", "?a")
    return re.sub(r"\bd\b", "PT5S", re.sub(r"\bd\b", "PT9S", text, count=1))


def opening(form: str) -> str:
    """The bracket and the words before the first number, as ``[RANGE TRIPLES``."""
    (found,) = re.findall(r"^\[[A-Z ]*[A-Z]", _FORMS[form].text)
    return str(found)


def words(form: str) -> set[str]:
    return set(re.findall(r"[A-Z]+", _FORMS[form].text))


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_has_an_example_on_the_page_of_the_languages(kind: str) -> None:
    assert spec_of(kind)


def test_a_kind_has_a_form() -> None:
    assert {*KINDS} ^ {*_FORMS} == {*WRITTEN_AS_OTHERS}


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_is_written_as_it_is_read(kind: str) -> None:
    assert spec_of(kind)
    for query in documented()[0][kind]:
        assert [each.spec for each in parse(write(query)).windows] == [each.spec for each in query.windows]


@pytest.mark.parametrize(("form", "dialect"), FORMS)
def test_a_dialect_reads_its_forms(form: str, dialect: Dialect) -> None:
    query = parse(text_with(sample(form), dialect), dialect=dialect)
    assert query.windows[0].spec.kind in (form, "grid")


@pytest.mark.parametrize(("form", "dialect"), FOREIGN)
def test_a_dialect_refuses_the_forms_of_others_by_name(form: str, dialect: Dialect) -> None:
    with pytest.raises(QueryTextError) as refused:
        parse(text_with(sample(form), dialect), dialect=dialect)
    assert f"{_FORMS[form].text} is not a window of {DIALECT_NAMES[dialect]}" in str(refused.value)


@pytest.mark.parametrize(("form", "dialect"), FORMS)
def test_a_form_without_brackets_is_recognised(form: str, dialect: Dialect) -> None:
    with pytest.raises(QueryTextError, match="the square brackets around the window"):
        parse(text_with(sample(form)[1:-1], dialect))


@pytest.mark.parametrize(("form", "dialect"), FORMS)
def test_the_page_of_the_languages_lists_a_form_in_each_dialect(form: str, dialect: Dialect) -> None:
    begin, end = {
        "cqels": ("### Windows", "\n### "),
        "rspql": ("## RSP-QL", "\n## "),
        "csparql": ("## C-SPARQL", "\n## "),
    }[dialect]
    section = LANGUAGES.partition(f"\n{begin}")[2].partition(end)[0]
    text = re.sub(r"^```.*?^```$", "", section, flags=re.MULTILINE | re.DOTALL)
    if dialect == "cqels":
        text = "\n".join(re.findall(r"^\| (`.*?) \|", text, re.MULTILINE))
    assert f"`{opening(form)}" in text, f"docs/language.md, {begin}, does not list {_FORMS[form].text}"


@pytest.mark.parametrize(("form", "dialect"), FORMS)
def test_a_form_stands_in_the_table_of_the_semantics_with_its_dialects(form: str, dialect: Dialect) -> None:
    if form in WRITTEN_AS_OTHERS:
        form = WRITTEN_AS_OTHERS[form]
    table = (ROOT / "docs" / "semantics.md").read_text("utf-8").partition("## 3. Windows")[2]
    rows = re.findall(r"^\| (.*?) \|.*\| (.*?) \|$", table.partition("\n- ")[0], re.MULTILINE)
    dialects = "; ".join(cell for text, cell in rows if opening(form) in text)
    assert dialects, f"docs/semantics.md does not say what {_FORMS[form].text} holds"
    name = DIALECT_NAMES[dialect].rstrip("*")
    assert name in dialects or re.search(r"\ball\b", dialects), f"docs/semantics.md: {dialects}, not {name}"


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_editor_of_the_page_offers_the_words_of_a_dialect(dialect: Dialect) -> None:
    script = (ROOT / "static" / "editor" / "keywords.js").read_text("utf-8")
    offered = set(dict(re.findall(r'^  (\w+): words\("([^"]*)"\)', script, re.MULTILINE))[dialect].split())
    ours = {word for form, each in FORMS for word in words(form) if each == dialect}
    assert ours - offered == set()
    assert {word for form, each in FOREIGN for word in words(form) if each == dialect} & offered <= ours


@pytest.mark.parametrize("kind", kinds._kinds)
def test_a_kind_has_a_row_in_the_docstring_of_specs(kind: str) -> None:
    assert re.search(rf"^    {kind} +(\[|SEQ|-)", WindowSpec.__doc__ or "", re.MULTILINE)


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_is_drawn_by_the_tests_of_snapshots_and_of_the_order_of_elements(kind: str) -> None:
    assert kind in {spec.kind for spec in SPECS}, "tests/continuous/windows/specs.py has no spec of it"


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_is_drawn_by_the_law_of_the_timeline(kind: str) -> None:
    drawn = {each for kinds_of_dialect in cases.KINDS.values() for each in kinds_of_dialect}
    assert kind in drawn, "tests/continuous/timeline_law/cases.py draws no window of it"


@cache
def functions(file: str) -> list[ast.FunctionDef]:
    """The tests of a file of this folder that contain ``assert``."""
    tree = ast.parse((Path(__file__).parent / file).read_text("utf-8"))
    return [
        each
        for each in tree.body
        if isinstance(each, ast.FunctionDef)
        and each.name.startswith("test_")
        and any(isinstance(part, ast.Assert) for part in ast.walk(each))
    ]


def called(function: ast.FunctionDef) -> set[str]:
    calls = [part.func for part in ast.walk(function) if isinstance(part, ast.Call)]
    return {each.id if isinstance(each, ast.Name) else getattr(each, "attr", "") for each in calls}


def named(function: ast.FunctionDef) -> set[str]:
    return {part.id for part in ast.walk(function) if isinstance(part, ast.Name)}


def operator_of(kind: str) -> str:
    spec = spec_of(kind)
    return type(kind_of(spec).operator(spec, None, False)).__name__


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in cases.KEYED])
def test_an_operator_is_compared_with_its_definition(kind: str) -> None:
    """The law of the timeline defines windows with keys, because only a pattern gives the keys."""
    wanted = {"play", operator_of(kind)}
    assert any(wanted <= called(each) for each in functions(LAWS)), (
        f"{LAWS} has no law of {operator_of(kind)}"
    )


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in cases.KEYED])
def test_an_operator_without_closes_is_given_late_elements(kind: str) -> None:
    if not kind_of(spec_of(kind)).closes:
        tests = [each for each in functions(LAWS) if "admit" in called(each)]
        assert any(operator_of(kind) in named(each) for each in tests), f"{LAWS} has no test of admit"


@pytest.mark.parametrize("kind", sorted(TESTED_APART))
def test_a_kind_without_a_text_has_tests_elsewhere(kind: str) -> None:
    assert kind in kinds._kinds
    assert (ROOT / TESTED_APART[kind]).is_file()
