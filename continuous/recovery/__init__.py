"""Checkpoints of an engine's state, and the recovery of the state after a restart or a crash."""
