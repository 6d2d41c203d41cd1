"""Asking a ready instance one real question."""

from typing import Any

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from controlplane.core import dispatch, events
from controlplane.core.errors import Conflict
from controlplane.fleet.models import Instance, State

DEFAULT_PROMPT = "Say hello in one short sentence."


def asked(prompt: str) -> dict[str, Any]:
    """`Instance.smoke` while the answer is awaited; `asked_at` tells the tick which questions got lost."""
    return {"state": "asked", "prompt": prompt, "asked_at": timezone.now().isoformat()}


def request_smoke(instance: Instance, *, prompt: str = DEFAULT_PROMPT, actor: str) -> None:
    """Have the worker send one chat completion and keep the answer in `instance.smoke`. Conflict unless it is ready."""
    if instance.state != State.READY:
        raise Conflict(
            _("%(instance)s is %(state)s, not ready.")
            % {"instance": instance, "state": instance.get_state_display().lower()},
            remedy=_("Wait until it is ready, or launch it."),
        )
    with transaction.atomic():
        Instance.objects.filter(pk=instance.pk).update(smoke=asked(prompt))
        events.record("instance.smoke_requested", actor=actor, subject=instance)
        dispatch.after_commit("fleet.smoke", instance_id=instance.pk, prompt=prompt)
