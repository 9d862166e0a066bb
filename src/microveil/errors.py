"""`microveil.errors`: the errors a caller may want to catch."""

from microveil.core.errors import DataError, DisclosureWarning, FileError, MicroveilError, ParameterError, PolicyNotMet

__all__ = ["DataError", "DisclosureWarning", "FileError", "MicroveilError", "ParameterError", "PolicyNotMet"]
