"""``python -m dpensemble``."""

import sys

from dpensemble.cli import main

sys.exit(main())
