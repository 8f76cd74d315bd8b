"""Planning: compiles algebra to operators, and operators to generated Python code."""
