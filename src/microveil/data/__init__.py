"""Tables of the outside world in and out: frames, files, and the dictionary of their columns."""
