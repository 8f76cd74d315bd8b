"""Grammars kept over restarts: lark takes a third of a second to build one, and little to read it back.

They stand in a file that belongs to one state of the program (store/logs/keyed_file.py). Of what is pickled
nothing else is made than plain values and lark's tokens.
"""

from __future__ import annotations

import hashlib
import io
import pickle
from pathlib import Path
from typing import Any

from lark import Lark, Token
from lark.grammar import Rule
from lark.lexer import TerminalDef

from quadrill.store.logs.keyed_file import KEY_BYTES, KeyedFile

from ..algebra.query import Dialect
from .program import program

_OURS = ("transformer", "import_paths")
"""Options of a grammar that are functions, and are given anew."""


class KeptGrammars:
    """The grammars of one file."""

    def __init__(self, path: Path | None = None) -> None:
        """``path``: the file; without one nothing is kept."""
        stamp = None if path is None else program()
        self._file = None if path is None or stamp is None else KeyedFile(path, stamp)

    def find(self, dialect: Dialect, transformer: Any) -> Lark | None:
        """The grammar of a dialect, which builds its trees by ``transformer``; None when it is not there."""
        data = None if self._file is None else self._file.values.pop(_key(dialect), None)
        if data is None:
            return None
        try:
            tables, memo = _Reader(io.BytesIO(data)).load()
            # As lark's stand-alone parsers do it.
            found: Lark = Lark._load_from_dict(tables, memo, transformer=transformer)  # type: ignore[no-untyped-call]
        except Exception:
            return None  # its digest is right and it is not: it is built anew
        return found

    def keep(self, dialect: Dialect, grammar: Lark) -> None:
        """Write a grammar that was built."""
        if self._file is None:
            return
        tables, memo = grammar.memo_serialize([TerminalDef, Rule])
        options = {name: value for name, value in tables["options"].items() if name not in _OURS}
        try:
            written = pickle.dumps(({**tables, "options": options}, memo), protocol=5)
        except (AttributeError, TypeError, pickle.PicklingError):
            return  # another lark: it is built each time
        self._file.add(_key(dialect), written)


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == (Token.__module__, Token.__name__):
            return Token
        raise pickle.UnpicklingError(f"{module}.{name} does not belong into a grammar")


def _key(dialect: Dialect) -> bytes:
    return hashlib.blake2b(dialect.encode(), digest_size=KEY_BYTES).digest()
