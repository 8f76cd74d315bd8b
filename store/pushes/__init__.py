"""The bodies of pushes: bytes become elements, or the records of which mappings make elements."""
