"""Rules of columns: domains, sums, ratios and orders; found, declared, and checked."""
