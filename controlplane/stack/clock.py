"""The Celery application that beat runs: the schedule and the broker, without the applications.

Beat only sends names at times. Loading models and tasks for that would cost 44 MB more (105 against 61 MB PSS).
"""

import os

from celery import Celery
from celery.beat import Scheduler
from django.conf import settings

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")

app = Celery("clock", fixups=[])  # Celery's Django fixup would set up all applications
app.config_from_object(settings, namespace="CELERY")


class Clock(Scheduler):
    """Celery's scheduler without its file and without its waiting.

    Every tick is due within a minute of a start, so there is nothing to remember; a file could be found broken after a
    power cut. Celery wakes 10 ms before each entry is due and asks in a loop until it is: most of what beat costs.
    """

    def adjust(self, n: float, drift: float = 0.0) -> float:
        return n
