"""Promoting a version, going back, giving up, taking out of service. Each is one transaction and one event."""

from controlplane.release.services.promoting import abort, promote, roll_back
from controlplane.release.services.serving import stop_serving

__all__ = ["abort", "promote", "roll_back", "stop_serving"]
