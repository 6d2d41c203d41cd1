"""What a config can be checked against: a vLLM release, or the very build on a host."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from django.db.models import QuerySet
from django.utils.translation import gettext as _

from controlplane.configs.domain.catalogue import UnsupportedReleaseError, catalogue
from controlplane.configs.domain.flags import Flag
from controlplane.configs.domain.versions import NotAVersionError
from controlplane.configs.models import ConfigVersion
from controlplane.core.errors import Invalid, NotFound
from controlplane.core.searching import Natural
from controlplane.inventory.models import Engine, OptionList
from controlplane.inventory.queries import LIVE_INSTANCE_STATES

ENGINE_PREFIX = "engine:"


@dataclass(frozen=True, slots=True)
class Target:
    """`version` is what the engine calls itself, `release` the catalogue's one that stands for it; `note` says so where
    the two differ, or where the build's own options are not known. `key` is how forms and addresses name it."""

    key: str
    label: str
    version: str
    release: str
    flags: Mapping[str, Flag]
    note: str | None = None
    engine: Engine | None = None

    @property
    def executable(self) -> str:
        return self.engine.executable if self.engine else "vllm"


def target_of(*, release: str = "", engine_id: int | None = None) -> Target:
    """The engine, or the release; with neither, the newest known release. Raises Invalid, NotFound."""
    if engine_id is not None:
        return _engine_target(engine_id)
    wanted = release or catalogue().releases[-1]
    found, note = _resolved(wanted)
    return Target(wanted, f"vLLM {wanted}", wanted, found, catalogue().flags(found), note)


def target_named(key: str) -> Target:
    """`engine:3` or a release, as forms send it."""
    number = key.removeprefix(ENGINE_PREFIX)
    if number == key:
        return target_of(release=key.strip())
    if not number.isdecimal():
        raise NotFound(_("There is no such engine."), remedy=_("Choose one from the list."))
    return target_of(engine_id=int(number))


def default_target_of(version: ConfigVersion) -> Target:
    """The engine that runs it, else as `default_target`."""
    running = Engine.objects.filter(
        instances__config_version=version, instances__state__in=LIVE_INSTANCE_STATES, missing_since=None
    )
    return _first_of(running) or default_target()


def default_target() -> Target:
    """The first engine that we have, else the newest release."""
    return _first_of(_engines()) or target_of()


def target_choices() -> list[tuple[str, list[tuple[str, str]]]]:
    """(group, (key, label)…) for a select: engines first, then releases from the newest."""
    engines = [
        (f"{ENGINE_PREFIX}{pk}", f"vLLM {version} · {host} · {executable}")
        for pk, version, host, executable in _engines()
        .order_by(Natural("host__name"), "executable")
        .values_list("pk", "version", "host__name", "executable")
    ]
    releases = [(release, f"vLLM {release}") for release in reversed(catalogue().releases)]
    groups = [(_("Engines on our hosts"), engines), (_("Releases"), releases)]
    return [group for group in groups if group[1]]


def releases() -> list[str]:
    """Known releases, the newest first."""
    return list(reversed(catalogue().releases))


def _engines() -> QuerySet[Engine]:
    return Engine.objects.filter(missing_since=None, host__removed_at=None).exclude(version="")


def _first_of(found: QuerySet[Engine]) -> Target | None:
    engine_id = found.order_by("pk").values_list("pk", flat=True).first()
    try:
        return None if engine_id is None else _engine_target(engine_id)
    except Invalid:  # it calls itself something that no release can stand for
        return None


def _engine_target(engine_id: int) -> Target:
    engine = Engine.objects.select_related("host").filter(pk=engine_id).first()
    if engine is None:
        raise NotFound(_("There is no such engine."), remedy=_("Look it up under Hosts."))
    release, note = _resolved(engine.version)
    listed = OptionList.objects.filter(engines=engine).values_list("pk", "build").first()
    if listed is None:
        own = _("The options of this very build are not known yet: checked as release %(release)s.")
        flags, note = catalogue().flags(release), own % {"release": release}
    else:
        flags, note = _flags_of_build(*listed), None
    return Target(f"{ENGINE_PREFIX}{engine.pk}", str(engine), engine.version, release, flags, note, engine)


def _resolved(version: str) -> tuple[str, str | None]:
    try:
        found = catalogue().resolve(version)
    except (NotAVersionError, UnsupportedReleaseError) as error:
        raise Invalid(str(error), code="unknown_release", remedy=_("Choose a release or an engine.")) from None
    return found.release, found.note


@lru_cache(maxsize=64)
def _flags_of_build(pk: int, build: str) -> Mapping[str, Flag]:
    """The options of a build never change (another build is another row), and reading 400 of them takes a while."""
    return catalogue().from_option_list(OptionList.objects.only("args").get(pk=pk, build=build).args)
