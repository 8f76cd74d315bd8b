"""Quadrill beside its peers: the same work in one run on one machine, rows compared before times."""
