"""Evaluation of static parts over very large graphs by Spark on the store's mirror: a built-in extension."""

from ..algebra.columnar import register_columnar
from .evaluate import SparkEngine, SparkTables
from .rule import choose

register_columnar("spark", SparkEngine)

__all__ = ["SparkEngine", "SparkTables", "choose"]
