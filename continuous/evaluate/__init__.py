"""Evaluators: the incremental one, and the one that recomputes by definition."""
