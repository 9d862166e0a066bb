"""From a source of columns to a table with roles, and from two sources to a pair; everything is checked on the way."""
