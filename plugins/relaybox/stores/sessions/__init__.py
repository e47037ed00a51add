"""Sessions to a store, through libpq: credentials, settings, limits of each answer, and what an error or a refusal of the server means."""
