"""Where installed wheels lie, found without importing them (their imports cost memory and look around the machine)."""

import importlib.util
from importlib.metadata import version
from pathlib import Path

from controlplane.core.errors import Problem


class WheelMissing(Problem):
    code = "wheel_missing"
    remedy = "Install requirements.txt again (bin/up does), or set DATABASE_URL and BROKER_URL to servers of your own."


def package_folder(package: str) -> Path:
    """The folder of an installed top-level package. Raises `WheelMissing`."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise WheelMissing(f"The package {package} is not installed in this Python.")
    return Path(spec.submodule_search_locations[0])


def wheel_version(package: str) -> str:
    return version(package)
