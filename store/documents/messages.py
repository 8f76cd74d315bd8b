"""Splitting of RDF documents at the delimiters of RDF Messages.

Source: RDF Messages, W3C RDF Stream Processing community group, sections "Version labels" and "Message
delimiters" (https://w3c-cg.github.io/rsp/spec/messages). In RDF Messages, one message is one element; blank
node labels are scoped to the message; PREFIX and BASE declarations also apply to later messages.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import orjson

from quadrill.store.errors import LimitError, RdfSyntaxError

_IRI_CHARACTER = r"""[^\x00-\x20<>"{}|^`\\]"""
# Tokens of Turtle that may contain the word MESSAGE, a brace or a dot as text; the order of alternatives
# matters. An unterminated string extends to its last possible end: the parser of the format refuses it later.
_TOKEN = re.compile(
    rf"""
      (?P<comment>\#[^\n\r]*)
    | (?P<long>\"\"\"(?>[^\"\\]++|\\.|\"(?!\"\"))*+(?>\"\"\")?+|'''(?>[^'\\]++|\\.|'(?!''))*+(?>''')?+)
    | (?P<string>\"[^\"\\\n\r]*+(?>\\.[^\"\\\n\r]*+)*+\"?+|'[^'\\\n\r]*+(?>\\.[^'\\\n\r]*+)*+'?+)
    | (?P<escape>\\.)
    | (?P<iri><{_IRI_CHARACTER}*+(?>\\u[0-9A-Fa-f]{{4}}{_IRI_CHARACTER}*+)*+>)
    | (?P<old>@(?:message|version|prefix|base)\b)
    | (?P<word>(?:[^\W\d]|:)(?:[\w.:%-]*[\w:%-])?)
    | (?P<brace>[{{}}()\[\]])
    | (?P<dot>\.)
    | (?P<space>\s+)
    | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
# Complete statements, one per line, as in N-Triples and N-Quads: they are skipped without reading their
# tokens.
_IRI = rf"<{_IRI_CHARACTER}*+>"
_LINES = re.compile(
    rf"""\s*+(?:{_IRI}[ ]{_IRI}[ ]
        (?:{_IRI}|\"[^\"\\\n\r]*+(?:\\.[^\"\\\n\r]*+){{0,100}}\"(?:\^\^{_IRI}|@[a-zA-Z0-9-]++|))
        (?:[ ]{_IRI}|)[ ]?\.\r?\n){{1,500}}""",
    re.VERBOSE,
)
_MOST_REPEATED = 1 << 28
"""Maximum number of characters of all copied directives or JSON-LD contexts, counted for each message."""
_VALUES = {
    "version": r"""\s*+(?:"[^"\n]*+"|'[^'\n]*+')""",
    "prefix": r"\s*+([^\s<>{}()\[\];,\"'#:]*+:)\s*+<[^<>\n]*+>",
    "base": r"\s*+()<[^<>\n]*+>",
}
"""Matches the rest of a directive after its keyword, with the declared prefix or version as a group."""
_ABSOLUTE = re.compile(r"<[A-Za-z][A-Za-z0-9+.-]*+:")


class MessageText(NamedTuple):
    """The text of one message that can be parsed alone: earlier directives come first, without line breaks.

    The attribute ``line`` is the line of the document at which ``text`` begins; ``lead`` is the number of
    characters added before it.
    """

    text: str
    line: int
    lead: int


def split_messages(text: str) -> list[MessageText]:
    """Cut an RDF Messages document of N-Triples, N-Quads, Turtle or TriG into its messages.

    Empty messages are kept, except that a delimiter at the end of a document opens none. VERSION
    announcements are removed, because a parser of plain RDF refuses the labels of messages.

    Raises:
        RdfSyntaxError: a delimiter stands inside a graph block or brackets, or ``@message`` lacks its dot.
        LimitError: the copies of directives before each message would take too much memory.
    """
    return _MessageSplitter(text).split()


def split_json_messages(text: str) -> list[MessageText]:
    """Cut newline-delimited JSON-LD into one document per line, each with the context of earlier lines.

    In newline-delimited JSON-LD, a line with only ``@context`` is not a message: it is the context of the
    following messages.

    Raises:
        LimitError: the copies of a context before each message would take too much memory.
    """
    messages: list[MessageText] = []
    before, repeated = "", 0
    for number, line in enumerate(text.split("\n"), start=1):
        if not line or line.isspace():
            continue
        try:
            document = orjson.loads(line)
        except ValueError:
            document = None
        if not isinstance(document, dict):
            # The parser of JSON-LD will read this line or report its mistake.
            messages.append(MessageText(line, number, 0))
        elif document.keys() == {"@context"}:
            before = f'{{"@context": {orjson.dumps(document["@context"]).decode()}, "@graph": '
        elif before and document:
            repeated += len(before)
            if repeated > _MOST_REPEATED:
                raise LimitError("a large context is repeated before too many messages")
            messages.append(MessageText(f"{before}{line}}}", number, len(before)))
        else:
            messages.append(MessageText(line, number, 0))
    return messages


def split_xml_messages(text: str) -> list[MessageText]:
    """Cut a sequence of RDF/XML documents, one per line, into one message per line."""
    lines = enumerate(text.split("\n"), start=1)
    return [MessageText(line, number, 0) for number, line in lines if line and not line.isspace()]


class _MessageSplitter:
    def __init__(self, text: str) -> None:
        self._text = text
        self._messages: list[MessageText] = []
        self._start = 0
        self._pieces: list[str] = []
        self._busy = False
        # Directives (PREFIX, BASE) of this message, and of earlier messages, which are copied before the
        # current message.
        self._directives: list[str] = []
        self._earlier = ""
        self._declared: dict[str, str] = {}
        self._repeated = 0
        # An offset in the document and its line number, from which the line numbers of later offsets are
        # counted.
        self._counted = (0, 1)

    def split(self) -> list[MessageText]:
        text, position, depth, at_statement = self._text, 0, 0, True
        while position < len(text):
            if at_statement and not depth and (lines := _LINES.match(text, position)) is not None:
                self._busy = True
                position = lines.end()
                continue
            match = _TOKEN.match(text, position)
            assert match is not None  # the last alternative of the token expression matches any character
            kind, token = match.lastgroup, match[0]
            if kind in ("space", "comment"):
                position = match.end()
                continue
            if at_statement and kind in ("word", "old"):
                name = token.lstrip("@").lower()
                if name == "message":
                    position = self._delimiter(match.start(), match.end(), depth, old=kind == "old")
                    continue
                if name in _VALUES and depth == 0:
                    position = self._directive(name, match.start(), match.end(), old=kind == "old")
                    continue
            self._busy = True
            if kind == "brace":
                depth += 1 if token in "{([" else -1
                at_statement = token == "{" or (token == "}" and depth == 0)
            else:
                at_statement = kind == "dot"
            position = match.end()
        if self._busy or not self._messages:
            self._close(len(text))
        return self._messages

    def _delimiter(self, start: int, end: int, depth: int, *, old: bool) -> int:
        if depth:
            raise self._error("MESSAGE stands inside a graph block", start, "Close the block with } first")
        if old:
            dot = re.compile(r"\s*\.").match(self._text, end)
            if dot is None:
                raise self._error("@message must be followed by a dot", start, "Write @message .")
            end = dot.end()
        self._close(start)
        self._start, self._pieces, self._busy = end, [], False
        return end

    def _directive(self, name: str, start: int, end: int, *, old: bool) -> int:
        match = re.compile(_VALUES[name] + (r"\s*\." if old else "")).match(self._text, end)
        if match is None:
            return end  # the parser of the RDF format will report this mistake
        if name == "version":
            # Spaces replace the VERSION directive, so positions stay the same.
            blank = re.sub(r"[^\n\r]", " ", self._text[start : match.end()])
            self._pieces.append(self._text[self._start : start] + blank)
            self._start = match.end()
        else:
            directive = re.sub(r"[\n\r]", " ", self._text[start : match.end()]) + " "
            # Concatenated documents repeat equal directives (PREFIX, BASE); a relative or changed directive
            # is kept.
            if self._declared.get(match[1]) != directive or not _ABSOLUTE.search(directive):
                self._declared[match[1]] = directive
                self._directives.append(directive)
        return match.end()

    def _close(self, end: int) -> None:
        body = "".join(self._pieces) + self._text[self._start : end]
        begin = end - len(body)
        counted, line = self._counted
        line += self._text.count("\n", counted, begin)
        self._counted = (begin, line)
        self._repeated += len(self._earlier)
        if self._repeated > _MOST_REPEATED:
            raise LimitError("too many PREFIX directives are repeated before too many messages")
        self._messages.append(MessageText(self._earlier + body, line, len(self._earlier)))
        if self._directives:
            self._earlier += "".join(self._directives)
            self._directives.clear()

    def _error(self, message: str, position: int, hint: str) -> RdfSyntaxError:
        line = self._text.count("\n", 0, position) + 1
        column = position - (self._text.rfind("\n", 0, position) + 1) + 1
        where = f"line {line}, column {column}"
        return RdfSyntaxError(f"{where}: {message}", line=line, column=column, hint=hint)
