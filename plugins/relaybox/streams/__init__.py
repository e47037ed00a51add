"""What a store decides about what arrived in it: senders, duplicates, order, holdback."""
