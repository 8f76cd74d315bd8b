"""Static parts over very large graphs, evaluated by Spark on the store's mirror."""

from .evaluate import SparkEngine, SparkTables
from .rule import choose

__all__ = ["SparkEngine", "SparkTables", "choose"]
