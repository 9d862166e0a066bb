"""Every option of every job, declared once: its name, default, range and help line.

What follows from a declaration: the signature and the docstring of the Python function, the flags of the command line
and their help, the keys of a recipe and its JSON schema, the settings of a release, and the page of options in the
docs. To add an option, add a field in `jobs.py` and use it where the work is done.
"""

from microveil.options.declaring import Options, declared_by, option, same_as
from microveil.options.jobs import (
    DECIMALS,
    DEFAULT_METHOD,
    MEMORY,
    NEGATIVE,
    PRIVATE,
    Assess,
    AssessFiles,
    Budget,
    Compare,
    CompareFile,
    Describe,
    Protect,
    ProtectFile,
    Reading,
    ReadingText,
    Recommend,
    RecommendFile,
    Run,
    Settings,
)
