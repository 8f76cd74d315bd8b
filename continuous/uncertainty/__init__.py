"""Probability distributions as literals and the functions over them."""
