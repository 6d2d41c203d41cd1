"""The page that lists the settings lists all of them, and no other."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
VARIABLE = re.compile(r"""["'`](CONTROLPLANE_[A-Z_]+|DATABASE_URL|BROKER_URL|SECRET_KEY_FILE)["'`]""")
SOURCES = (
    "controlplane/settings.py",
    "controlplane/settings_test.py",
    "controlplane/core/env.py",
    "controlplane/stack",
)


def variables_of(path: Path) -> set[str]:
    files = path.rglob("*.py") if path.is_dir() else [path]
    return {name for file in files if "tests" not in file.parts for name in VARIABLE.findall(file.read_text())}


def test_every_variable_that_the_source_reads_is_described() -> None:
    read = set().union(*(variables_of(ROOT / source) for source in SOURCES))
    described = variables_of(ROOT / "docs/reference/settings.md")
    assert described == read
