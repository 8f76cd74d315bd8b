"""What a commit changes: the exact quads and graph names, changes not yet made, and how they are made."""
