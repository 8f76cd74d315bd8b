"""Random shapes graphs with every component of SHACL Core, and random data graphs, as Turtle."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

NODES = [f":n{number}" for number in range(5)]
CLASSES = [":A", ":B", ":C"]
PROPERTIES = [":p", ":q", ":r"]
LITERALS = [
    "1", "2", "-3", "2.5", '"1.5"^^xsd:double', '"1"', '"a"', '"ab"@en', '"ab"@en-gb', '"ab"@de', '""',
    "true", '"2020-01-01"^^xsd:date', '"2021-06-01T00:00:00+00:00"^^xsd:dateTime', '"x"^^xsd:integer',
    '"7"^^xsd:byte', '"300"^^xsd:byte',
]  # fmt: skip
DATATYPES = [
    "xsd:integer",
    "xsd:string",
    "rdf:langString",
    "xsd:byte",
    "xsd:date",
    "xsd:decimal",
    "xsd:boolean",
]
KINDS = ["BlankNode", "IRI", "Literal", "BlankNodeOrIRI", "BlankNodeOrLiteral", "IRIOrLiteral"]
SEVERITIES = ["sh:Warning", "sh:Info", ":Grave"]
TERMS = NODES + CLASSES + LITERALS
NUMBERS = ["1", "2", "-3", "2.5", '"1.5"^^xsd:double', "0"]
"""The values of :n and :m. Comparisons are drawn for these only; see `test_against_pyshacl`."""


@dataclass(frozen=True)
class Graphs:
    """A shapes graph and a data graph."""

    shapes: str
    data: str

    def __str__(self) -> str:
        return f"{self.shapes}\n# data\n{self.data}"


@st.composite
def triples(draw: st.DrawFn) -> list[str]:
    found = [
        f"{draw(st.sampled_from(NODES))} {draw(st.sampled_from(PROPERTIES))} {draw(st.sampled_from(TERMS))} ."
        for _ in range(draw(st.integers(0, 20)))
    ]
    for _ in range(draw(st.integers(0, 8))):
        name, number = draw(st.sampled_from([":n", ":m"])), draw(st.sampled_from(NUMBERS))
        found.append(f"{draw(st.sampled_from(NODES))} {name} {number} .")
    for _ in range(draw(st.integers(0, 6))):
        found.append(f"{draw(st.sampled_from(NODES))} a {draw(st.sampled_from(CLASSES))} .")
    for _ in range(draw(st.integers(0, 2))):
        one, other = draw(st.sampled_from(CLASSES)), draw(st.sampled_from(CLASSES))
        found.append(f"{one} rdfs:subClassOf {other} .")
    return found


@st.composite
def paths(draw: st.DrawFn, depth: int = 2) -> str:
    kind = draw(st.sampled_from(["iri"] * 4 + ["inverse", "sequence", "alternative", "*", "+", "?"]))
    if depth == 0 or kind == "iri":
        return draw(st.sampled_from(PROPERTIES))
    if kind in ("sequence", "alternative"):
        members = " ".join(draw(paths(depth - 1)) for _ in range(draw(st.integers(2, 3))))
        return f"( {members} )" if kind == "sequence" else f"[ sh:alternativePath ( {members} ) ]"
    names = {"inverse": "inverse", "*": "zeroOrMore", "+": "oneOrMore", "?": "zeroOrOne"}
    return f"[ sh:{names[kind]}Path {draw(paths(depth - 1))} ]"


class _Builder:
    """Draws the shapes of one graph; a shape refers to shapes before it only."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw
        self._node_shapes: list[str] = []
        self._property_shapes: list[str] = []
        self._ended = ""

    def one(self, *options: str) -> str:
        return self._draw(st.sampled_from(options))

    def number(self, low: int, high: int) -> int:
        return self._draw(st.integers(low, high))

    def shape(self, number: int) -> str:
        name = f":S{number}"
        has_path = self._draw(st.booleans())
        parts = [f"a sh:{'Property' if has_path else 'Node'}Shape"]
        if has_path:
            compared = self.number(0, 3) == 0
            parts.append(f"sh:path {':n' if compared else self._draw(paths())}")
        parts += self._targets() + self._other_members()
        kinds = list(_VALUE_KINDS)
        if has_path:
            kinds += _PATH_KINDS + (_COMPARISONS if compared else ())
        used = set()
        for _ in range(self.number(1, 4)):
            kind = self._draw(st.sampled_from(kinds))
            if kind not in used:
                used.add(kind)
                parts += getattr(self, f"_{kind}")()
        self._ended += f"{name} {' ; '.join(parts)} .\n"
        (self._property_shapes if has_path else self._node_shapes).append(name)
        return self._ended

    def _targets(self) -> list[str]:
        found = []
        for _ in range(self.number(0, 3)):
            kind = self.one("Node", "Node", "Class", "SubjectsOf", "ObjectsOf", "implicit")
            if kind == "implicit":
                found.append("a rdfs:Class")
            elif kind == "Node":
                found.append(f"sh:targetNode {self.one(*NODES, '1', ':absent')}")
            elif kind == "Class":
                found.append(f"sh:targetClass {self.one(*CLASSES)}")
            else:
                found.append(f"sh:target{kind} {self.one(*PROPERTIES)}")
        return found

    def _other_members(self) -> list[str]:
        found = []
        if self.number(0, 4) == 0:
            found.append(f"sh:severity {self.one(*SEVERITIES)}")
        if self.number(0, 6) == 0:
            found.append(f"sh:deactivated {self.one('true', 'false')}")
        return found

    def _any_shape(self) -> str:
        known = self._node_shapes + self._property_shapes
        return self.one(*known) if known else "[ a sh:NodeShape ; sh:nodeKind sh:IRI ]"

    def _shape_list(self) -> str:
        return f"( {' '.join(self._any_shape() for _ in range(self.number(1, 3)))} )"

    def _class(self) -> list[str]:
        return [f"sh:class {self.one(*CLASSES)}"]

    def _datatype(self) -> list[str]:
        return [f"sh:datatype {self.one(*DATATYPES)}"]

    def _kind(self) -> list[str]:
        return [f"sh:nodeKind sh:{self.one(*KINDS)}"]

    def _range(self) -> list[str]:
        name = self.one("minExclusive", "minInclusive", "maxExclusive", "maxInclusive")
        limit = self.one("1", "2.0", '"2.5"^^xsd:double', "0")
        return [f"sh:{name} {limit}"]

    def _length(self) -> list[str]:
        return [f"sh:{self.one('minLength', 'maxLength')} {self.number(0, 3)}"]

    def _pattern(self) -> list[str]:
        flags = ['sh:flags "i"'] if self.number(0, 1) else []
        pattern = self.one("a", "^AB$", "n[0-2]", "[0-9]")
        return [f'sh:pattern "{pattern}"', *flags]

    def _language_in(self) -> list[str]:
        ranges = self.one('"en"', '"de" "en"', '"en-gb"', '"fr"')
        return [f"sh:languageIn ( {ranges} )"]

    def _equals(self) -> list[str]:
        return [f"sh:{self.one('equals', 'disjoint')} {self.one(*PROPERTIES)}"]

    def _in(self) -> list[str]:
        return [f"sh:in ( {' '.join(self.one(*TERMS) for _ in range(self.number(0, 6)))} )"]

    def _has_value(self) -> list[str]:
        return [f"sh:hasValue {self.one(*TERMS)}"]

    def _not(self) -> list[str]:
        return [f"sh:not {self._any_shape()}"]

    def _lists(self) -> list[str]:
        return [f"sh:{self.one('and', 'or', 'xone')} {self._shape_list()}"]

    def _node(self) -> list[str]:
        return [f"sh:node {self.one(*self._node_shapes)}"] if self._node_shapes else []

    def _property(self) -> list[str]:
        return [f"sh:property {self.one(*self._property_shapes)}"] if self._property_shapes else []

    def _properties(self) -> list[str]:
        return self._property() + self._property()

    def _closed(self) -> list[str]:
        ignored = " ".join(self.one("rdf:type", *PROPERTIES) for _ in range(self.number(0, 2)))
        return ["sh:closed true", f"sh:ignoredProperties ( {ignored} )"] + self._property()

    def _count(self) -> list[str]:
        return [f"sh:{self.one('minCount', 'maxCount')} {self.number(0, 3)}"]

    def _unique_lang(self) -> list[str]:
        return ["sh:uniqueLang true"]

    def _less(self) -> list[str]:
        return [f"sh:{self.one('lessThan', 'lessThanOrEquals')} :m"]

    def _qualified(self) -> list[str]:
        return [
            f"sh:qualifiedValueShape {self._any_shape()}",
            f"sh:{self.one('qualifiedMinCount', 'qualifiedMaxCount')} {self.number(0, 2)}",
            f"sh:qualifiedValueShapesDisjoint {self.one('true', 'false')}",
        ]


_VALUE_KINDS = (
    "class", "datatype", "kind", "length", "pattern", "language_in", "equals", "in", "has_value",
    "not", "lists", "node", "property", "properties", "closed",
)  # fmt: skip
_PATH_KINDS = ("count", "unique_lang", "qualified", "qualified", "count")
_COMPARISONS = ("range", "range", "less", "less")


@st.composite
def graphs(draw: st.DrawFn) -> Graphs:
    builder = _Builder(draw)
    text = ""
    for number in range(draw(st.integers(1, 6))):
        text = builder.shape(number)
    shapes = [f":S{number}" for number in range(6)]
    data = draw(triples())
    for _ in range(draw(st.integers(0, 2))):
        data.append(f"{draw(st.sampled_from(NODES))} a {draw(st.sampled_from(shapes))} .")
    return Graphs(text, "\n".join(data))
