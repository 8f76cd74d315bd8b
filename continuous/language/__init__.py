"""Parser and translator of the dialects CQELS-QL, RSP-QL*, C-SPARQL and SPARQL to one algebra.

    text  --parser.py, build_queries.py-->  syntax.py  --translate.py-->  algebra.query.ContinuousQuery

Each dialect of query texts has a separate grammar file (``*.lark``), which extends the shared core
``sparql.lark``.
"""

from .context import LanguageLimits, detect_dialect
from .parser import parse, warm_up

__all__ = ["LanguageLimits", "detect_dialect", "parse", "warm_up"]
