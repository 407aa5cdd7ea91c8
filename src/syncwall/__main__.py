"""`python -m syncwall`, the same as the `syncwall` command."""

from syncwall.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
