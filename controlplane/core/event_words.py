"""What an event says to a person: its name in words, its data as short texts."""

import json
from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext_lazy as _

EVENT_WORDS = {
    # people and their keys
    "user.created": _("Person added"),
    "user.role_changed": _("Role changed"),
    "user.deactivated": _("Person deactivated"),
    "user.reactivated": _("Person let in again"),
    "user.password_changed": _("Password changed"),
    "user.password_reset": _("One-time password made"),
    "user.language_changed": _("Language changed"),
    "token.created": _("API token made"),
    "token.revoked": _("API token revoked"),
    "secret.stored": _("Secret stored"),
    "secret.replaced": _("Secret replaced"),
    "secret.deleted": _("Secret deleted"),
    # hosts, what is on them
    "host.added": _("Host added"),
    "host.changed": _("Host settings changed"),
    "host.removed": _("Host removed"),
    "host.maintenance_started": _("Maintenance started"),
    "host.maintenance_ended": _("Maintenance ended"),
    "host.probe_requested": _("Look at the host asked for"),
    "host.reached": _("Host answers"),
    "host.lost": _("Host does not answer"),
    "host.refused": _("Host refused"),
    "host.rebooted": _("Host rebooted"),
    "host.gpus_changed": _("GPUs changed"),
    "host.key_offered": _("Host key waits to be confirmed"),
    "host.key_pinned": _("Host key pinned"),
    "host.key_changed": _("Host shows another key"),
    "host.key_replaced": _("Host key replaced"),
    "engine.found": _("vLLM found"),
    "engine.changed": _("vLLM changed"),
    "engine.lost": _("vLLM is gone"),
    "model.added": _("Model added"),
    "model.inspection_requested": _("Reading of the model's files asked for"),
    "model.removed": _("Model forgotten"),
    # configs
    "config.imported": _("Config imported"),
    "config.changed": _("Config changed"),
    "config.renamed": _("Config renamed"),
    "config.described": _("Purpose of the config changed"),
    "config.archived": _("Config archived"),
    "config.unarchived": _("Config taken out of the archive"),
    # instances
    "instance.requested": _("Launch asked for"),
    "instance.started": _("Instance starts"),
    "instance.readied": _("Instance ready"),
    "instance.drained": _("Instance drains"),
    "instance.stopped": _("Instance stopped"),
    "instance.failed": _("Instance failed"),
    "instance.stop_requested": _("Stop asked for"),
    "instance.smoke_requested": _("Smoke test asked for"),
    "instance.assigned": _("Serves an environment"),
    "instance.unassigned": _("Serves its environment no more"),
    "instance.removed": _("Instance removed"),
    # benchmarks
    "run.requested": _("Run asked for"),
    "run.started": _("Run started"),
    "run.finished": _("Run finished"),
    "run.invalidated": _("Run invalid"),
    "run.failed": _("Run failed"),
    "run.cancelled": _("Run cancelled"),
    "run.cancel_requested": _("Cancelling asked for"),
    "run.annotated": _("Note of the run changed"),
    "run.removed": _("Run removed"),
    # environments
    "promotion.requested": _("Promotion asked for"),
    "promotion.rolled_back": _("Way back asked for"),
    "promotion.abort_requested": _("Giving up asked for"),
    "promotion.finished": _("Promotion live"),
    "promotion.reverted": _("Promotion reverted"),
    "promotion.failed": _("Promotion failed"),
    "deployment.stopped": _("Taken out of service"),
}

_FOR_PROGRAMS = ("_id", "digest")


def words_of(name: str) -> str:
    """ "instance.failed" → "Instance failed". A name that nobody described keeps its own words."""
    return str(EVENT_WORDS.get(name) or name.replace(".", " ").replace("_", " ").capitalize())


def names_saying(text: str) -> list[str]:
    """Names whose words, in the reader's language, contain `text`: what a person sees is also what can be searched."""
    wanted = text.casefold()
    return [name for name, words in EVENT_WORDS.items() if wanted in str(words).casefold()]


def details_of(data: Mapping[str, Any]) -> list[str]:
    """ "role: admin" for each that is not empty; a flag that is set is its name alone.

    Numbers of rows and digests are for programs and left out.
    """
    return [_detail(key, value) for key, value in data.items() if not (key.endswith(_FOR_PROGRAMS) or _is_empty(value))]


def _is_empty(value: object) -> bool:
    return value is None or value is False or value in ("", [], {})


def _detail(key: str, value: object) -> str:
    label = key.removeprefix("is_").replace("_", " ")
    if value is True:
        return label
    if isinstance(value, list):
        return f"{label}: {', '.join(map(str, value))}"
    if isinstance(value, dict):
        return f"{label}: {json.dumps(value, ensure_ascii=False)}"
    return f"{label}: {value}"
