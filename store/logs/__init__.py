"""Durable logs of commits, accepted inputs and emitted events."""
