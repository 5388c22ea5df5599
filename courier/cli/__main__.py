"""`python -m courier.cli` is the same as `courier`."""

import sys

from courier.cli.app import main

sys.exit(main())
