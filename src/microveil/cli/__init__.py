"""The command line, a face of the api."""
