"""`python -m couriermq.cli` is the same as `courier`."""

import sys

from couriermq.cli.app import main

sys.exit(main())
