"""Continuous queries: their languages, windows and evaluation."""
