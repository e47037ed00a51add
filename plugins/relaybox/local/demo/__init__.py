"""`make demo`: an airline on the embedded stack."""
