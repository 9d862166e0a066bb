"""Releases with a proof: noisy targets, a random start, an arrangement; all that follows the noise is post-processing."""
