"""The Celery application that beat runs: the schedule and the broker, without the applications.

Beat only sends names at times. Loading models and tasks for that would cost 44 MB more (105 against 61 MB PSS).
"""

import os

from celery import Celery
from django.conf import settings

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")

app = Celery("clock", fixups=[])  # Celery's Django fixup would set up all applications
app.config_from_object(settings, namespace="CELERY")
