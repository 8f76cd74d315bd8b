"""Cache file of built grammars, because lark takes 0.3 s to build a grammar and much less to load one.

The cache file of grammars is valid only for one version of the program (store/logs/keyed_file.py). Unpickling
a cached grammar can create only plain values and lark's tokens.
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
"""Options of a lark grammar that are functions; they are not stored and must be passed to each load."""


class KeptGrammars:
    """The built grammars that are stored in one cache file."""

    def __init__(self, path: Path | None = None) -> None:
        """``path`` is the cache file of grammars; None disables the cache."""
        stamp = None if path is None else program()
        self._file = None if path is None or stamp is None else KeyedFile(path, stamp)

    def find(self, dialect: Dialect, transformer: Any) -> Lark | None:
        """Load the built grammar of a dialect, with ``transformer`` as tree builder.

        Returns None if the grammar is not in the cache file.
        """
        data = None if self._file is None else self._file.values.pop(_key(dialect), None)
        if data is None:
            return None
        try:
            tables, memo = _Reader(io.BytesIO(data)).load()
            # Lark's stand-alone parsers load their tables by the same call as this code.
            found: Lark = Lark._load_from_dict(tables, memo, transformer=transformer)  # type: ignore[no-untyped-call]
        except Exception:
            # The stored grammar is unusable in spite of its correct digest, so the caller builds the grammar.
            return None
        return found

    def keep(self, dialect: Dialect, grammar: Lark) -> None:
        """Store a built grammar in the cache file of grammars."""
        if self._file is None:
            return
        tables, memo = grammar.memo_serialize([TerminalDef, Rule])
        options = {name: value for name, value in tables["options"].items() if name not in _OURS}
        try:
            written = pickle.dumps(({**tables, "options": options}, memo), protocol=5)
        except (AttributeError, TypeError, pickle.PicklingError):
            # If this version of lark has grammars that cannot be pickled, each server start builds them.
            return
        self._file.add(_key(dialect), written)


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == (Token.__module__, Token.__name__):
            return Token
        raise pickle.UnpicklingError(f"{module}.{name} does not belong into a grammar")


def _key(dialect: Dialect) -> bytes:
    return hashlib.blake2b(dialect.encode(), digest_size=KEY_BYTES).digest()
