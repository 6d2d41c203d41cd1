"""State directories for tests of the stack."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.stack.paths import StatePaths


@pytest.fixture
def paths() -> Iterator[StatePaths]:
    """An empty state directory. Not under pytest's folder: its names are too long for sockets, and closed to the
    account that root's embedded servers run as."""
    root = Path(tempfile.mkdtemp(prefix="vcp state "))
    made = StatePaths(root)
    made.make()
    yield made
    shutil.rmtree(root)
