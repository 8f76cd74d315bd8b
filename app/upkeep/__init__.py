"""Long work beside the requests: loads, backups, compaction, mirrors."""
