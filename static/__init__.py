"""Style sheets and scripts of the admin page, read as package data."""
