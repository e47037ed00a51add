"""Rows that flow from store to store by COPY, as bytes, and the hash of each."""
