"""`python -m microveil`."""

from microveil.cli.main import main

main()
