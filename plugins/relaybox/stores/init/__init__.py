"""`relaybox init`: one store or all of them are brought up to date and their hops registered, by a session or as a script of psql."""
