"""Output of the commands on a terminal; each module has the name of its command module."""
