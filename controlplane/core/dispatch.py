"""Start background work by name, once the transaction that asks for it is committed.

Nothing imports task modules. A message that gets lost is harmless: every task is also found by a tick.
"""

import logging
import time
from functools import cache
from typing import Any

from celery import Celery
from django.db import transaction
from kombu.exceptions import OperationalError

logger = logging.getLogger(__name__)

PAUSE_AFTER_FAILURE_S = 15.0
"""While the broker is down each try costs 6 to 8 s inside the Redis client (measured), and a page would wait for it."""


def after_commit(task_name: str, **kwargs: Any) -> None:
    """Send `task_name` with `kwargs` (ids, not objects) after the running transaction commits."""
    transaction.on_commit(lambda: _sender().send(task_name, kwargs))


def later(task_name: str, wait_s: float, **kwargs: Any) -> None:
    """Send `task_name` now, to be run in `wait_s` seconds. For short waits; what is due another day is a row."""
    _sender().send(task_name, kwargs, countdown=wait_s)


class _Sender:
    """A client of the broker. The worker's own app lives above us, and the web process has no other use for it."""

    def __init__(self) -> None:
        self.client = Celery("controlplane-sender", set_as_current=False)
        self.client.config_from_object("django.conf:settings", namespace="CELERY")
        self._rests_until = 0.0

    def send(self, task_name: str, kwargs: dict[str, Any], **options: Any) -> None:
        if time.monotonic() < self._rests_until:
            return
        try:
            self.client.send_task(task_name, kwargs=kwargs, retry=False, **options)
        except OperationalError as error:  # the broker is down: the next tick finds the work in Postgres
            self._rests_until = time.monotonic() + PAUSE_AFTER_FAILURE_S
            logger.warning("broker unavailable, %s waits for the next tick: %s", task_name, error)


@cache
def _sender() -> _Sender:
    return _Sender()
