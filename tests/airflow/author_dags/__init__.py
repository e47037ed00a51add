"""A folder of files that a running scheduler reads."""
