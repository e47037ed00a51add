"""The JSON answers: of commands with --json, and of the page's API. Their names are an interface; docs/json.md lists them.

Each is a pydantic model, the one schema of what is written, of the page's OpenAPI and of docs/json.md.
"""
