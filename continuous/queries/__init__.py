"""Registered queries: from a registration to a running query."""
