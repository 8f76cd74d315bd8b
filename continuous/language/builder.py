"""The callbacks of the grammars: each rule's children become one node of `syntax.py`.

The parser calls a method by the name of its rule or alias at the moment the rule is complete, so there
is no parse tree between text and syntax tree, and no recursion however deep the text is.
"""

from __future__ import annotations

from typing import Any

from .build_expressions import ExpressionRules
from .build_patterns import PatternRules
from .build_queries import QueryRules
from .build_windows import WindowRules


class SyntaxBuilder(QueryRules, PatternRules, ExpressionRules, WindowRules):
    """All rules. Rules that a dialect imports from the core carry its name space before their own."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("sparql__"):
            return getattr(self, name.removeprefix("sparql__"))
        raise AttributeError(name)
