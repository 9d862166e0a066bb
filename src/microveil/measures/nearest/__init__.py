"""The search for nearest records, in memory and in blocks."""
