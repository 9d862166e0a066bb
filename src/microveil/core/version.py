"""The version, where files of every room can read it; the build reads it here, too."""

__version__ = "0.3.0"
