"""Stream-to-relation operators: the windows."""
