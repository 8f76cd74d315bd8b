"""The bodies of pushes, decoded to elements, or to records that a mapping turns into elements."""
