"""`python -m api.cli` is the `runstate` command."""

import sys

from api.cli import main

sys.exit(main())
