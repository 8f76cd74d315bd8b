"""What users meet: HTTP, the admin page and the command line."""
