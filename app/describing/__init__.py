"""What an engine tells of its queries, put into words."""
