"""The front: the pipeline that processes every request, from its route to the last byte of its answer."""
