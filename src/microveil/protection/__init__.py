"""Protecting a table: plan, intake, engine, release; in memory, in blocks, and on Spark."""
