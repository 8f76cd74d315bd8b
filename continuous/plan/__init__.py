"""Algebra to a plan of operators, and to generated code."""
