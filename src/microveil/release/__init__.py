"""What protect gives back: the release, its diagnostics, its recipe, its register and its reports."""
