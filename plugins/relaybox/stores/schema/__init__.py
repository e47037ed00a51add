"""What a store is made of: the files of `sql/`, its migrations, functions and tables, its version, and what differs from what init made."""
