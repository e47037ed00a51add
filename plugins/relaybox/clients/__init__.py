"""The libraries of Postgres that applications use: how each runs a statement, and what it says of its session and its errors.

What is sent and decided is elsewhere (relaybox.outbox, relaybox.consumer), once for all libraries. No module here imports a library that
the application has not imported already.
"""
