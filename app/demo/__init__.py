"""``quadrill demo``: the server on a week of real flights."""
