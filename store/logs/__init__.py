"""Durable logs: what the store committed."""
