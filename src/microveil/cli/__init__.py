"""The command line: it translates what is typed, and shows what came of it."""
