"""The front: every request passes through one pipeline, from its route to the last byte of its answer."""
