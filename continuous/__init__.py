"""Continuous computes: languages, windows and the evaluation of registered queries."""
