"""Derived messages: a function of DataFrames makes them of the messages of a stream, and they are sent once.

A derivation is a consumer whose effect is an insert into the outbox of the same store. The insert and the acknowledgement are one
transaction, so each message of the stream is derived from by exactly one attempt that published (docs/deriving.md).
"""
