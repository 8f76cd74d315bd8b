"""App speaks: HTTP, the admin page and the command line."""
