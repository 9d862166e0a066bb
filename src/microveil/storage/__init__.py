"""Columns of numbers on a disk, and tables whose rows are elsewhere."""
