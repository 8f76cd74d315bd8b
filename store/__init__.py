"""The store package: the named-graph store, its change log, the durable logs and the registry."""
