"""One blueprint per resource of the HTTP interface."""
