"""Tables of the outside world in and out: files, databases, frames, and the dictionary of their columns."""
