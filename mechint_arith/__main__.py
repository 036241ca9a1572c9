"""`python -m mechint_arith`: the command line."""

from mechint_arith.cli import main

main()
