"""Static parts over very large graphs, evaluated by Spark on the store's mirror."""

from .evaluate import ColumnarEngine, SparkEngine, SparkTables
from .rule import Choice, choose

__all__ = ["Choice", "ColumnarEngine", "SparkEngine", "SparkTables", "choose"]
