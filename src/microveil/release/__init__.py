"""What protect gives back: the release, its diagnostics, its recipe, its registry and its reports."""
