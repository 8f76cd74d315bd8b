"""The languages: CQELS-QL, RSP-QL*, C-SPARQL and SPARQL, all to one algebra.

    text  --parser.py, build_queries.py-->  syntax.py  --translate.py-->  algebra.query.ContinuousQuery

Each grammar is a document of its own (``*.lark``) over the shared core ``sparql.lark``.
"""

from .context import LanguageLimits, detect_dialect
from .parser import parse, warm_up

__all__ = ["LanguageLimits", "detect_dialect", "parse", "warm_up"]
