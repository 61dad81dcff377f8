"""`python -m acc`."""

from acc.cli import main

if __name__ == "__main__":
    main()
