"""Moves messages from Postgres to Postgres, hop by hop. Verifies that none was lost, doubled or reordered."""

__version__ = "0.1.0"
