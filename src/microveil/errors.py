"""`microveil.errors`: the errors a caller may want to catch."""

from microveil.core.errors import DataError, FileError, MicroveilError, ParameterError, PolicyNotMet, ReleasedAsIs

__all__ = ["DataError", "FileError", "MicroveilError", "ParameterError", "PolicyNotMet", "ReleasedAsIs"]
