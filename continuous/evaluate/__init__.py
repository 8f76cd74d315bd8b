"""Evaluators of continuous queries: an incremental evaluator, and a reference evaluator that recomputes."""
