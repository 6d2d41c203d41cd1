"""The environments that every installation has."""

from controlplane.fleet.models import Environment

RANKS = {"production": 20, "staging": 10}


def ensure_environments() -> None:
    """Make production and staging where they are missing; nothing else is touched."""
    for name, rank in RANKS.items():
        Environment.objects.get_or_create(name=name, defaults={"rank": rank})
