"""Stream-to-relation operators: event time, watermarks and windows."""
