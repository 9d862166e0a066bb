"""Compiled loops of perturbations; imported late, because numba is slow to load."""
