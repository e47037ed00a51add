"""Exports: a stream of a store as a table of a lake, each message once in every version of the table (docs/lake.md).

The position of an export is in the table. The commit that adds files moves it, so a batch is in the table as a whole, with its
position, or not at all.
"""
