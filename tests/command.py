"""The command line, called as a function."""

from __future__ import annotations

import pytest

from microveil.cli.main import main


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of `microveil` with these arguments."""
    with pytest.raises(SystemExit) as stopped:
        main([str(argument) for argument in arguments])
    printed = capsys.readouterr()
    return int(stopped.value.code or 0), printed.out, printed.err
