"""Making versions: importing files, changing values. Versions are never changed."""

from collections.abc import Mapping
from typing import Any

from django.db import transaction
from django.utils.translation import gettext as _

from controlplane.configs.domain.difference import differences
from controlplane.configs.domain.document import Document, InvalidEditError, read
from controlplane.configs.domain.naming import is_name, name_for
from controlplane.configs.domain.problem import Problem
from controlplane.configs.models import Config, ConfigVersion
from controlplane.configs.queries import check_version, file_digest, reference_to, shown, words_of
from controlplane.configs.queries.targets import Target
from controlplane.core import events, secrets_store
from controlplane.core.errors import Conflict, Invalid
from controlplane.core.models import Secret

MAX_NOTE = 20_000
Values = Mapping[tuple[str, str], Any]


class InvalidConfig(Invalid):
    """The text cannot be a config; `extra["problems"]` are all faults with their places. Nothing was kept."""

    code = "invalid_config"


def import_config(
    *, raw: bytes, actor: str, name: str | None = None, note: str = "", parent: ConfigVersion | None = None
) -> tuple[ConfigVersion, bool]:
    """Keep a config file as the next version of the config `name` (made where there is none; default: after the model).

    Answers the version and whether it is new: the same file again is the version that it was. A plain api_key is put
    into the secret store first. Raises InvalidConfig with every problem, Conflict when the config is archived.
    """
    reading = read(raw)
    problems = shown((problem for problem in reading.problems if problem.is_error), raw)
    if name and not is_name(name):
        problems.insert(0, _name_problem(name))
    document = reading.document
    if document is not None and not document.content:
        problems += shown([Problem("empty", 1, 1, "", _("The text sets nothing."), _("Name at least a model."))])
    if problems or document is None:
        raise _invalid(problems)
    with transaction.atomic():
        config, _made = Config.objects.get_or_create(
            name=name or name_for(document.content), defaults={"created_by": actor}
        )
        return _keep(config, document, parent=parent, note=note, actor=actor, event="config.imported")


def change_version(*, version: ConfigVersion, values: Values, actor: str, note: str = "") -> tuple[ConfigVersion, bool]:
    """A version with some keys of `version` set, or removed where the value is None; all else stays as it is written.

    `values` is (section, key) → value. Raises InvalidConfig, Conflict.
    """
    document = changed_document(version=version, values=values)
    with transaction.atomic():
        return _keep(version.config, document, parent=version, note=note, actor=actor, event="config.changed")


def changed_document(*, version: ConfigVersion, values: Values) -> Document:
    """What `change_version` would keep. Raises InvalidConfig."""
    reading = read(bytes(version.toml))
    if reading.document is None:
        raise _invalid(shown(reading.problems))
    try:
        changed = reading.document.with_values(values)
    except InvalidEditError as error:
        raise _invalid(shown(error.problems)) from None
    except (ValueError, RecursionError):  # TOML has no form for null inside a list, nor for lists a thousand deep
        raise _invalid(shown([_no_form(values)])) from None
    again = read(changed.toml.encode())
    if again.document is None:
        raise _invalid(shown(again.problems))
    return again.document


def fix_version(*, version: ConfigVersion, target: Target, actor: str) -> tuple[ConfigVersion, bool]:
    """The version without what `target` would refuse, as far as that needs no person. Raises Conflict when it does."""
    checked = check_version(version, target)
    if not checked.fixes:
        raise Conflict(
            _("Nothing in %(version)s can be fixed for %(target)s by itself.")
            % {"version": version, "target": target.label},
            remedy=_("Read its problems and change the values."),
            extra={"problems": checked.errors},
        )
    note = _("Made to run on %(target)s") % {"target": target.label}
    return change_version(version=version, values=checked.fixes, note=note, actor=actor)


def _keep(
    config: Config, document: Document, *, parent: ConfigVersion | None, note: str, actor: str, event: str
) -> tuple[ConfigVersion, bool]:
    """Give the document its number. The config's row is locked, so two imports at once get two numbers."""
    config = Config.objects.select_for_update().get(pk=config.pk)
    if config.archived_at is not None:
        raise Conflict(
            _("%(config)s is archived.") % {"config": config.name},
            code="archived",
            remedy=_("Take it out of the archive, or choose another name."),
        )
    document = _with_stored_key(config, document, actor=actor)
    digest = file_digest(document.toml)
    same = config.versions.select_related("config").filter(file_digest=digest).first()
    if same is not None:
        return same, False
    latest = config.versions.order_by("-number").first()
    version = ConfigVersion.objects.create(
        config=config,
        number=latest.number + 1 if latest else 1,
        toml=document.toml.encode(),
        content=document.content,
        digest=document.digest,
        file_digest=digest,
        parent=parent or latest,
        note=note.replace("\x00", "").strip()[:MAX_NOTE],
        author=actor,
    )
    _record(version, event=event, actor=actor)
    return version, True


def _with_stored_key(config: Config, document: Document, *, actor: str) -> Document:
    """The key itself goes to the secret store; the document, and all that is derived from it, has the reference."""
    if document.secret_text is None:
        return document
    reference = reference_to(document.secret_text, config)
    if reference is None:
        wanted = secrets_store.free_name(f"{config.name}-api-key")
        kind = Secret.Kind.API_KEY
        hint = _("api_key of the config %(config)s") % {"config": config.name}
        stored = secrets_store.store(name=wanted, kind=kind, plain=document.secret_text, actor=actor, hint=hint)
        reference = stored.reference
    return document.with_secret(reference)


def _record(version: ConfigVersion, *, event: str, actor: str) -> None:
    parent = version.parent
    changes = [words_of(change) for change in differences(parent.content, version.content)] if parent else []
    what = ", ".join(changes) if changes else _("comments only") if parent else _("first version")
    sentence = _("v%(number)d: %(what)s") % {"number": version.number, "what": what}
    events.record(
        event,
        actor=actor,
        subject=version.config,
        sentence=sentence[:1000],
        version=version.number,
        version_id=version.pk,
        digest=version.digest,
    )


def _no_form(values: Values) -> Problem:
    keys = ", ".join(f"[{section}] {key}" for section, key in values)[:200]
    return Problem("wrong_type", None, None, keys, _("A value cannot be written in TOML."), _("Correct the value."))


def _name_problem(name: str) -> dict[str, Any]:
    message = _("“%(name)s” cannot name a config.") % {"name": name[:100]}
    remedy = _("Use letters, digits, - and _, at most 100, not only digits.")
    return shown([Problem("bad_name", None, None, "name", message, remedy)])[0]


def _invalid(problems: list[dict[str, Any]]) -> InvalidConfig:
    sentence = _("The config cannot be used: %(message)s") % {"message": problems[0]["message"] if problems else ""}
    if len(problems) > 1:
        sentence = _("The config has %(count)d problems.") % {"count": len(problems)}
    return InvalidConfig(
        sentence, remedy=_("Nothing was kept. Correct the text and try again."), extra={"problems": problems}
    )
