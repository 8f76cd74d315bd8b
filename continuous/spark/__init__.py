"""Static parts over very large graphs, evaluated by Spark on the store's mirror."""

from .evaluate import SparkTables
from .rule import Choice, choose

__all__ = ["Choice", "SparkTables", "choose"]
