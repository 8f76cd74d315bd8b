"""The splitter of SPARQL update requests, which divides a request into its operations.

The splitter of updates parses prologues, operation keywords, and the outer braces of templates and WHERE
parts. The text inside braces of an update is not parsed here; `sparql.update` later passes it to Oxigraph.
Source: SPARQL 1.1 Update section 3 and grammar rules 29 to 48.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias

from pyoxigraph import Quad

from ..changes.commit import GraphName, NetChange
from ..errors import LimitError, QueryTextError
from ..terms import Solution
from .guard import TextLimits
from .scan import Inspection
from .tokens import Token, TokenKind, excerpt_at, line_and_column

_ABSOLUTE = re.compile(r"<[A-Za-z][A-Za-z0-9+.\-]*+:")
_BETWEEN_QUADS = frozenset({",", ";", ".", "[", "}", "<<", "{|", "|}", "~"})
_MOST_OPERATIONS = 1_000_000
_MOST_DECLARED = 1 << 26


class TemplateInstantiator(Protocol):
    """Instantiates a template without a parser."""

    @property
    def graphs(self) -> Collection[GraphName]:
        """The constant graphs of the template."""
        ...

    def __call__(self, rows: Sequence[Solution]) -> Iterator[Quad]:
        """Yield the template's quads for ``rows``."""
        ...


class Piece(NamedTuple):
    """A template or WHERE part of an update: text, offset, and names of its variables and blank nodes.

    The function ``fill`` instantiates a template with solutions without a parser; None if Oxigraph must
    instantiate the template. The function ``concerns`` returns True if a change may affect the solutions of a
    WHERE part; None means that every change may affect them.
    """

    text: str
    start: int
    variables: tuple[str, ...] = ()
    blanks: frozenset[str] = frozenset()
    fill: TemplateInstantiator | None = None
    concerns: Callable[[NetChange], bool] | None = None


@dataclass(frozen=True, slots=True)
class OneGraph:
    """The update target ``GRAPH iri``: one graph, given by the text of its IRI or prefixed name."""

    iri: str


@dataclass(frozen=True, slots=True)
class DefaultTarget:
    """The update target ``DEFAULT``: the default graph."""


@dataclass(frozen=True, slots=True)
class NamedTarget:
    """The update target ``NAMED``: all named graphs."""


@dataclass(frozen=True, slots=True)
class AllTarget:
    """The update target ``ALL``: the default graph and all named graphs."""


GraphTarget: TypeAlias = OneGraph | DefaultTarget | NamedTarget | AllTarget


class Data(NamedTuple):
    """The update operation ``INSERT DATA`` or, if ``remove`` is True, ``DELETE DATA``."""

    quads: Piece
    remove: bool


class Modify(NamedTuple):
    """The update operation ``[WITH] [DELETE] [INSERT] [USING] WHERE``.

    The update operation ``DELETE WHERE`` has its pattern both as ``delete`` and as ``where``.
    """

    with_graph: str | None
    delete: Piece | None
    insert: Piece | None
    using: tuple[str, ...]
    using_named: tuple[str, ...]
    where: Piece

    @property
    def variables(self) -> tuple[str, ...]:
        """The distinct names of the variables in the DELETE and INSERT templates."""
        templates = [piece for piece in (self.delete, self.insert) if piece is not None]
        return tuple(dict.fromkeys(name for piece in templates for name in piece.variables))


@dataclass(frozen=True, slots=True)
class Load:
    """The update operation ``LOAD [SILENT] source [INTO GRAPH target]``."""

    source: str
    target: str | None
    silent: bool


@dataclass(frozen=True, slots=True)
class Clear:
    """The update operation ``CLEAR`` or, if ``drop`` is True, ``DROP``."""

    target: GraphTarget
    silent: bool
    drop: bool


@dataclass(frozen=True, slots=True)
class Create:
    """The update operation ``CREATE [SILENT] GRAPH``."""

    graph: str
    silent: bool


@dataclass(frozen=True, slots=True)
class Transfer:
    """The update operation ``ADD``, ``COPY`` or ``MOVE``; ``verb`` is this keyword in upper case."""

    verb: str
    source: OneGraph | DefaultTarget
    target: OneGraph | DefaultTarget
    silent: bool


Action: TypeAlias = Data | Modify | Load | Clear | Create | Transfer


class UpdateOperation(NamedTuple):
    """An operation of an update request, with its offsets in the text and all preceding declarations."""

    action: Action
    prologue: str
    start: int
    end: int


def split_update(
    text: str, token_stream: Iterable[Token] | None = None, most_quads: int = 1_000_000
) -> list[UpdateOperation]:
    """Return the operations of an update request, in order.

    Args:
        text: the SPARQL Update text.
        token_stream: the tokens of the text from an `Inspection`; by default the text is tokenised here.
        most_quads: maximum number of quads in INSERT DATA and DELETE DATA together.

    The text inside braces is not checked; the caller must let Oxigraph parse every operation before the first
    operation is executed.

    Raises:
        QueryTextError: a keyword, IRI or brace of the update is missing or misplaced.
        LimitError: the update request has too many operations, prologue declarations or quads.
    """
    return _UpdateSplitter(
        text, token_stream or Inspection(text, TextLimits()).tokens(), most_quads
    ).operations()


class _UpdateSplitter:
    """A recursive-descent parser of one update request, with one token of look-ahead."""

    def __init__(self, text: str, token_stream: Iterable[Token], most_quads: int = 0) -> None:
        self._text = text
        self._most_quads = most_quads
        self._quads = 0
        self._tokens = iter(token_stream)
        self._next = next(self._tokens, None)
        self._end = 0
        self._prologue = ""
        self._declared: dict[str, str] = {}
        self._declared_characters = 0

    def operations(self) -> list[UpdateOperation]:
        operations: list[UpdateOperation] = []
        while True:
            self._take_prologue()
            if self._next is None:
                return operations
            if len(operations) == _MOST_OPERATIONS:
                raise LimitError(f"an update may have {_MOST_OPERATIONS:,} operations, this one has more")
            start = self._next.start
            operations.append(UpdateOperation(self._operation(), self._prologue, start, self._end))
            if self._next is None:
                return operations
            if not self._accept_symbol(";"):
                raise self._error("expected ';' between two operations")

    # --- the cursor ---------------------------------------------------------------------------

    def _advance(self) -> None:
        if self._next is not None:
            self._end = self._next.end
        self._next = next(self._tokens, None)

    def _accept_word(self, *words: str) -> bool:
        if self._next is not None and self._next.word in words:
            self._advance()
            return True
        return False

    def _accept_symbol(self, symbol: str) -> bool:
        token = self._next
        if token is not None and token.kind is TokenKind.PUNCT and token.text == symbol:
            self._advance()
            return True
        return False

    def _expect_word(self, word: str) -> None:
        if not self._accept_word(word):
            raise self._error(f"expected {word}")

    def _iri(self) -> str:
        token = self._next
        if token is None or token.kind not in (TokenKind.IRI, TokenKind.PNAME):
            raise self._error("expected an IRI")
        self._advance()
        return token.text

    def _braces(self, *, variables: str = "", blanks: str = "") -> Piece:
        """Read a text from ``{`` to the matching ``}``, with the names of its variables and blank nodes.

        A non-empty ``variables`` or ``blanks`` forbids variables or blank nodes, and is the name of the
        operation in the error message. The error has the position of the forbidden variable or blank node,
        while Oxigraph's parser would report the end of the braces.
        """
        begin = self._next
        if begin is None or begin.text != "{" or begin.kind is not TokenKind.PUNCT:
            raise self._error("expected '{'")
        depth, lists = 0, 0
        is_data = variables.endswith("DATA")
        names: dict[str, None] = {}
        labels: set[str] = set()
        while (token := self._next) is not None:
            kind, text, _, end = token
            if is_data:
                # Each quad in braces has at least one of these separators, and each member of a collection is
                # two quads.
                if text in _BETWEEN_QUADS:
                    self._count_quads(1)
                lists += (text == "(") - (text == ")")
                if lists > 0:
                    self._count_quads(2)
            if kind is TokenKind.PUNCT:
                if text == "{":
                    depth += 1
                elif text == "}":
                    depth -= 1
                    if depth == 0:
                        self._advance()
                        start = begin.start
                        return Piece(self._text[start:end], start, tuple(names), frozenset(labels))
            elif kind is TokenKind.VAR:
                if variables:
                    raise self._error(f"{variables} may not hold the variable {text}", at=token)
                names[text[1:]] = None
            elif kind is TokenKind.BLANK:
                if blanks:
                    raise self._error(f"{blanks} may not hold the blank node {text}", at=token)
                labels.add(text)
            self._advance()
        raise self._error("a '{' is not closed", at=begin)

    def _count_quads(self, quads: int) -> None:
        self._quads += quads
        if self._quads > self._most_quads:
            raise LimitError(
                f"an update may insert or delete {self._most_quads:,} quads as data, this one has more",
                code="body-too-large",
                hint="Send several updates, or load a file with quadrill load; see max_request_quads.",
            )

    def _error(self, message: str, at: Token | None = None) -> QueryTextError:
        token = at or self._next
        offset = token.start if token is not None else len(self._text)
        line, column = line_and_column(self._text, offset)
        place = f", found {token.text[:40]!r}" if token is not None else ", found the end of the text"
        return QueryTextError(
            f"{message}{place if at is None else ''} at line {line}, column {column}",
            line=line,
            column=column,
            excerpt=excerpt_at(self._text, line, column),
        )

    # --- the grammar --------------------------------------------------------------------------

    def _take_prologue(self) -> None:
        while (first := self._next) is not None:
            name = first.word
            if self._accept_word("BASE"):
                iri = self._iri()
            elif self._accept_word("PREFIX"):
                name = self._iri()
                iri = self._iri()
            elif self._accept_word("VERSION"):
                if self._next is None or self._next.kind is not TokenKind.STRING:
                    raise self._error("expected a version string")
                iri = ""
                self._advance()
            else:
                return
            self._declare(name, iri, self._text[first.start : self._end])

    def _declare(self, name: str, iri: str, text: str) -> None:
        """Add a declaration (PREFIX, BASE, VERSION) to the prologue, unless it is already in force.

        Concatenated update scripts often repeat prefix declarations.
        """
        if self._declared.get(name) == iri and _ABSOLUTE.match(iri):
            return
        self._declared[name] = iri
        self._prologue += text + "\n"
        self._declared_characters += len(self._prologue)
        if self._declared_characters > max(_MOST_DECLARED, 8 * len(self._text)):
            raise LimitError(
                "the update declares prefixes again before too many of its operations",
                hint="declare all of them once, before the first operation",
            )

    def _operation(self) -> Action:
        word = self._next.word if self._next is not None else ""
        match word:
            case "INSERT" | "DELETE" | "WITH":
                return self._change()
            case "LOAD":
                return self._load()
            case "CLEAR" | "DROP":
                self._advance()
                silent = self._accept_word("SILENT")
                return Clear(self._target(), silent, drop=word == "DROP")
            case "CREATE":
                self._advance()
                silent = self._accept_word("SILENT")
                self._expect_word("GRAPH")
                return Create(self._iri(), silent)
            case "ADD" | "COPY" | "MOVE":
                self._advance()
                silent = self._accept_word("SILENT")
                source = self._graph_or_default()
                self._expect_word("TO")
                return Transfer(word, source, self._graph_or_default(), silent)
            case _:
                raise self._error(
                    "expected an update operation"
                    " (INSERT, DELETE, WITH, LOAD, CLEAR, CREATE, DROP, COPY, MOVE or ADD)"
                )

    def _change(self) -> Action:
        with_graph = self._iri() if self._accept_word("WITH") else None
        delete: Piece | None = None
        insert: Piece | None = None
        if self._accept_word("DELETE"):
            if with_graph is None and self._accept_word("DATA"):
                return Data(self._braces(variables="DELETE DATA", blanks="DELETE DATA"), remove=True)
            if with_graph is None and self._accept_word("WHERE"):
                pattern = self._braces(blanks="DELETE WHERE")
                return Modify(None, pattern, None, (), (), pattern)
            delete = self._braces(blanks="DELETE")
        if self._accept_word("INSERT"):
            if with_graph is None and delete is None and self._accept_word("DATA"):
                return Data(self._braces(variables="INSERT DATA"), remove=False)
            insert = self._braces()
        if delete is None and insert is None:
            raise self._error("expected DELETE or INSERT")
        using: list[str] = []
        using_named: list[str] = []
        while self._accept_word("USING"):
            if self._accept_word("NAMED"):
                using_named.append(self._iri())
            else:
                using.append(self._iri())
        self._expect_word("WHERE")
        where = self._braces()
        return Modify(with_graph, delete, insert, tuple(using), tuple(using_named), where)

    def _load(self) -> Load:
        self._advance()
        silent = self._accept_word("SILENT")
        source = self._iri()
        target = None
        if self._accept_word("INTO"):
            self._expect_word("GRAPH")
            target = self._iri()
        return Load(source, target, silent)

    def _target(self) -> GraphTarget:
        if self._accept_word("GRAPH"):
            return OneGraph(self._iri())
        if self._accept_word("DEFAULT"):
            return DefaultTarget()
        if self._accept_word("NAMED"):
            return NamedTarget()
        if self._accept_word("ALL"):
            return AllTarget()
        raise self._error("expected GRAPH, DEFAULT, NAMED or ALL")

    def _graph_or_default(self) -> OneGraph | DefaultTarget:
        if self._accept_word("DEFAULT"):
            return DefaultTarget()
        self._accept_word("GRAPH")
        return OneGraph(self._iri())
