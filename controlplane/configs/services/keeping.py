"""Configs as a whole: their name, what they are for, whether they are still wanted."""

from django.db import IntegrityError, transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from controlplane.configs.domain.naming import is_name
from controlplane.configs.models import Config
from controlplane.configs.queries import deployments_of, where_it_runs
from controlplane.core import events
from controlplane.core.errors import Conflict, Invalid


def rename_config(*, config: Config, name: str, actor: str) -> Config:
    """Another name. Refused while an environment runs it: deployments know configs by name."""
    name = name.strip()
    if name == config.name:
        return config
    if not is_name(name):
        raise Invalid(
            _("“%(name)s” cannot name a config.") % {"name": name[:100]},
            remedy=_("Use letters, digits, - and _, at most 100, not only digits."),
        )
    places = [deployment.environment.name for deployment in deployments_of(config)]
    if places:
        raise Conflict(
            _("%(places)s know it as %(config)s.") % {"places": ", ".join(places), "config": config.name},
            code="config_in_use",
            remedy=_("Rename it while no environment runs it, or import it under a second name."),
        )
    before = config.name
    try:
        with transaction.atomic():
            Config.objects.filter(pk=config.pk).update(name=name)
            config.name = name
            sentence = _("%(before)s is now %(name)s") % {"before": before, "name": name}
            events.record("config.renamed", actor=actor, subject=config, sentence=sentence, before=before, after=name)
    except IntegrityError:
        config.name = before
        raise Conflict(_("There is a config %(name)s already.") % {"name": name}, remedy=_("Choose another.")) from None
    return config


def describe_config(*, config: Config, description: str, actor: str) -> None:
    """What the config is for, in a person's words."""
    description = description.replace("\x00", "").strip()
    if description == config.description:
        return
    with transaction.atomic():
        config.description = description
        config.save(update_fields=["description"])
        events.record("config.described", actor=actor, subject=config, sentence=description[:200])


def archive_config(*, config: Config, actor: str) -> None:
    """Out of the lists; its versions, runs and history stay. Refused while it runs or an environment wants it."""
    names = [instance.name for instance in where_it_runs(config)]
    names += [deployment.environment.name for deployment in deployments_of(config)]
    if names:
        raise Conflict(
            _("%(config)s is in use: %(names)s.") % {"config": config.name, "names": ", ".join(names)},
            code="config_in_use",
            remedy=_("Stop its instances, and promote another config there first."),
        )
    _set_archived(config, is_archived=True, actor=actor)


def unarchive_config(*, config: Config, actor: str) -> None:
    """Back into the lists."""
    _set_archived(config, is_archived=False, actor=actor)


def _set_archived(config: Config, *, is_archived: bool, actor: str) -> None:
    """Nothing happens, and nothing is recorded, when it is so already."""
    now = timezone.now() if is_archived else None
    with transaction.atomic():
        won = Config.objects.filter(pk=config.pk, archived_at__isnull=is_archived).update(archived_at=now)
        if won:
            name = "config.archived" if is_archived else "config.unarchived"
            events.record(name, actor=actor, subject=config)
    config.archived_at = now
