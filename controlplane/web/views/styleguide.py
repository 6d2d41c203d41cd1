"""Every component with sample data; imported only with CONTROLPLANE_DEBUG."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_GET

from controlplane.core.tests import styleguide_samples


@require_GET
def styleguide(request: HttpRequest) -> HttpResponse:
    return render(request, "styleguide.html", styleguide_samples.context(timezone.now()))
