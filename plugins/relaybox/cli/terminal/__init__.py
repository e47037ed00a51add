"""What the commands print on a terminal; each module has the name of its commands' module."""
