"""Relation-to-stream operators: the events that each evaluation emits, and the current answer."""
