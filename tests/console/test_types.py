"""The console's scripts agree with their types."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.console.test_files import APP

pytestmark = pytest.mark.slow

TYPES = Path(__file__).parent / "types"


def test_every_script_agrees_with_its_types(tmp_path: Path, node_modules: Path) -> None:
    """In a copy, where declarations stand in for the libraries."""
    shutil.copytree(APP, tmp_path / "app")
    shutil.copytree(TYPES, tmp_path / "vendor", ignore=shutil.ignore_patterns("tsconfig.json"))
    shutil.copy(TYPES / "tsconfig.json", tmp_path)
    compiler = [str(node_modules / "typescript" / "bin" / "tsc"), "-p", str(tmp_path)]
    checked = subprocess.run(["node", *compiler], capture_output=True, text=True, check=False)
    assert checked.stdout == ""
