"""``python -m reproductions``, from the repository's root."""

import sys

from dpensemble.cli import main

sys.exit(main(app="reproductions.command"))
