"""Store keeps: the named-graph store, its change sets and the registry."""
