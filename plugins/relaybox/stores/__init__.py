"""Sessions to a store, its schema, and rows that flow in and out of it as bytes."""
