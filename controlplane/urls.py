"""The root of all addresses."""

from django.urls import include, path

from controlplane.api import api

urlpatterns = [
    path("api/v1/", api.urls),
    path("account/", include("controlplane.accounts.urls")),
    path("", include("controlplane.inventory.urls")),
    path("configs/", include("controlplane.configs.urls")),
    path("instances/", include("controlplane.fleet.urls")),
    path("benchmarks/", include("controlplane.bench.urls")),
    path("environments/", include("controlplane.release.urls")),
    path("events/", include("controlplane.ops.urls")),
    path("", include("controlplane.web.urls")),
]

handler400 = "controlplane.web.views.bad_request"
handler403 = "controlplane.web.views.forbidden"
handler404 = "controlplane.web.views.not_found"
handler500 = "controlplane.web.views.server_error"
