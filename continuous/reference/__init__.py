"""The reference evaluator: by definition, with Oxigraph; the oracle of every other engine."""

from .answer import Answer, EvaluationOptions, StaticPart
from .evaluator import Contents, ReferenceEvaluator

__all__ = ["Answer", "Contents", "EvaluationOptions", "ReferenceEvaluator", "StaticPart"]
