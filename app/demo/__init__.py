"""Implementation of ``quadrill demo``, which runs the server on a week of real flights."""
