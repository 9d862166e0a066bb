"""From file to file: one function per job. The command line and the Python functions translate into these."""
