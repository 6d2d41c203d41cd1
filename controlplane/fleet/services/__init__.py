"""What can be done to instances. Each function is one transaction and one event."""

from controlplane.fleet.services.keys import key_of
from controlplane.fleet.services.launching import relaunch, request_launch
from controlplane.fleet.services.preflighting import request_preflight
from controlplane.fleet.services.removing import remove_instance
from controlplane.fleet.services.rendering import CannotRender, exported
from controlplane.fleet.services.smoking import request_smoke
from controlplane.fleet.services.stopping import request_stop

__all__ = [
    "CannotRender",
    "exported",
    "key_of",
    "relaunch",
    "remove_instance",
    "request_launch",
    "request_preflight",
    "request_smoke",
    "request_stop",
]
