"""Frames in memory: numpy, pandas, polars and Arrow behind one interface."""
