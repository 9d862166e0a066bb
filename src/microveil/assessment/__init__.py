"""Two files side by side, the measures that are taken of them, and the verdict of a policy."""
