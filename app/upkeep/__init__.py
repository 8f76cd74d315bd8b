"""Background work of the server: loads, backups, compaction, mirrors, checks and repairs."""
