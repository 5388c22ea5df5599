"""Has Spark look for data sources with the Python that runs the program.

Spark's JVM starts `python3` from the path to ask which data sources there are. A program that runs in an environment
that is not activated has another Python there, one without Courier, and `format("courier")` is unknown. The file
`couriermq.pth` imports this module when a Python of the environment starts; nothing happens until PySpark is imported.
"""

import os
import sys

DRIVER = "PYSPARK_DRIVER_PYTHON"
EVERYWHERE = "PYSPARK_PYTHON"


class Watch:
    """Waits for the import of PySpark, and leaves all imports to the other finders.

    Every Python of the environment loads this module, so it loads no others, not even one for a base class.
    """

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:
        if fullname == "pyspark":
            sys.meta_path.remove(self)
            choose()


def watch() -> None:
    if "pyspark" not in sys.modules:
        sys.meta_path.insert(0, Watch())


def choose() -> None:
    """Name this Python to Spark's driver, unless somebody has named one or the path leads to this environment."""
    import shutil  # noqa: PLC0415 - most Pythons never get here

    if DRIVER in os.environ or EVERYWHERE in os.environ or not sys.executable:
        return
    found = shutil.which("python3")
    if found is None or os.path.dirname(found) != os.path.dirname(sys.executable):  # noqa: PTH120 - pathlib loads slowly
        os.environ[DRIVER] = sys.executable


watch()
