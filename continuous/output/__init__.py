"""Relation to stream: what is told of each evaluation, and the answer of now."""
