"""Outbound HTTP exchanges, bounded in time and bytes."""
