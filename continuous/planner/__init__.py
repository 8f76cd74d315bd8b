"""From the algebra to operators and to generated functions."""
