"""Outbox tables of applications that are adopted: a trigger of the store sends what is inserted into them. See docs/adopt.md."""
