"""`python -m smoothcert`."""

from smoothcert.cli import main

main()
