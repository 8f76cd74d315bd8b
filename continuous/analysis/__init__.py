"""Analysis of one-shot SPARQL texts: corrections, bounds on work and memory, columns, update shapes."""
