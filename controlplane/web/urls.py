from django.conf import settings
from django.urls import path

from controlplane.web.views import pages
from controlplane.web.views.api_docs import api_docs
from controlplane.web.views.secrets import delete_secret, replace_secret, secrets

app_name = "web"
urlpatterns = [
    path("", pages.overview, name="overview"),
    path("palette/", pages.palette, name="palette"),
    path("healthz", pages.healthz, name="healthz"),
    path("api/docs", api_docs, name="api_docs"),
    path("account/secrets/", secrets, name="secrets"),
    path("account/secrets/<slug:name>/replace/", replace_secret, name="replace_secret"),
    path("account/secrets/<slug:name>/delete/", delete_secret, name="delete_secret"),
    path("account/about/", pages.about, name="about"),
]
if settings.DEBUG:
    from controlplane.web.views.styleguide import (
        styleguide,
    )  # its samples live among the tests: only where they are wanted

    urlpatterns.append(path("styleguide", styleguide, name="styleguide"))
