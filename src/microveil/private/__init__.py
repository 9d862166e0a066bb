"""Releases with a proof: noisy targets, a random start, an arrangement. After the noise nothing looks at the data."""
