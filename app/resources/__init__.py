"""The resources of the HTTP interface, as functions that map a request to an answer."""
