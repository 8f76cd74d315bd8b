"""The interfaces for users: HTTP, the admin page and the command line."""
