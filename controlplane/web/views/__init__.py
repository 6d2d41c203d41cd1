"""The pages around everything else. `controlplane.urls` names the error pages here."""

from controlplane.web.views.errors import bad_request, forbidden, not_found, server_error

__all__ = ["bad_request", "forbidden", "not_found", "server_error"]
