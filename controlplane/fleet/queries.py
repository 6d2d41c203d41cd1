"""What pages, API and the apps above ask about instances. A list costs as many queries at any length."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from django.db.models import Count, Exists, Max, Model, OuterRef, Q, QuerySet

from controlplane.configs.models import ConfigVersion
from controlplane.core.paging import PAGE_SIZE, Page, page_by_key
from controlplane.core.searching import Natural, Sorts, clean, ordered
from controlplane.fleet.domain.log_lines import Level, LogLine, parse, without_colour
from controlplane.fleet.models import LIVE_STATES, Attempt, Instance, LogChunk, Preflight, Transition
from controlplane.inventory import queries as inventory
from controlplane.inventory.domain.holders import Holder, holders
from controlplane.inventory.models import Accelerator, Engine

LIVE = "live"
"""As a state in a filter: everything that is not stopped or failed."""

INSTANCE_SORTS: Sorts = {
    "created": ("created_at",),
    "name": (Natural("name"),),
    "state": ("state", Natural("name")),
    "since": ("state_since",),
    "host": (Natural("host__name"), Natural("name")),
    "config": ("config_version__config__name", "config_version__number"),
    "kv": ("measured_kv_tokens",),
    "ready": ("ready_s",),
}
_OF_ITS_OWN_PAGE = frozenset({"sealed_key", "smoke", "drift"})
_INSTANCE_ROW = (
    *(field.attname for field in Instance._meta.concrete_fields if field.attname not in _OF_ITS_OWN_PAGE),
    "host__name", "engine__version", "engine__device", "config_version__number", "config_version__config__name",
    "deployment__name", "deployment__environment__name",
)  # fmt: skip
_ATTEMPT_ROW = (
    "instance",
    "number",
    "outcome",
    "started_at",
    "launched_at",
    "ready_at",
    "ended_at",
    "exit_code",
    "exit_signal",
    "failure",
)
_RUN_ROW = ("workload__name", "state", "output_throughput", "ttft_ms_p50", "ttft_ms_p99", "created_at", "instance")
_LOG_BATCH = 16
_SEARCH_LENGTH = 200
_DIGITS = 19

CHOICES_LISTED = 50
"""Of a longer list one searches what one wants; a page with all of 200 hosts costs 150 ms and nobody reads it."""

T = TypeVar("T")
M = TypeVar("M", bound=Model)


# -- Instances -------------------------------------------------------------------------------------------------------


def instances(
    *, state: str = "", host: str = "", config: str = "", environment: str = "", search: str = "", sort: str = ""
) -> QuerySet[Instance]:
    """Instances for a list, with host, engine, config and environment, without what only a detail page shows.

    `state` is a state or "live"; `host`, `config` and `environment` are names; `sort` is a key of INSTANCE_SORTS, with
    "-" the other way round, newest first when it is none.
    """
    found = _rows()
    if state:
        found = found.filter(state__in=LIVE_STATES) if state == LIVE else found.filter(state=clean(state))
    for lookup, wanted in (
        ("host__name", host),
        ("config_version__config__name", config),
        ("deployment__environment__name", environment),
    ):
        if wanted := clean(wanted):
            found = found.filter(**{lookup: wanted})
    if search := clean(search):
        found = found.filter(
            Q(name__icontains=search) | Q(served_model_name__icontains=search) | Q(host__name__icontains=search)
        )
    return ordered(found, sort, INSTANCE_SORTS)


def instances_page(number: Any = 1, *, size: int = PAGE_SIZE, **chosen: str) -> Page[Instance]:
    """One page of `instances(**chosen)`."""
    return page_by_key(instances(**chosen), _rows(), number, size=size)


def instance_details() -> QuerySet[Instance]:
    """Instances with all that a detail page shows, save attempts and log."""
    return _joined().defer("sealed_key", "host__facts", "config_version__toml")


def instance_detail(instance_id: int) -> Instance:
    """One of `instance_details`; Instance.DoesNotExist when it is not there."""
    return instance_details().get(pk=instance_id)


def instances_of_version(config_version_id: int) -> QuerySet[Instance]:
    """What runs, or ran, a config version, newest first."""
    return instances().filter(config_version=config_version_id)


def state_counts() -> dict[str, int]:
    """How many instances are in each state that any is in."""
    rows = Instance.objects.order_by().values_list("state").annotate(count=Count("pk"))
    return dict(rows)


def attempts_of(instance: Instance) -> QuerySet[Attempt]:
    """All attempts, newest first, without the log reader's own notes."""
    return instance.attempts.defer("reader_state").order_by("-number")


def newest_attempt(instance: Instance) -> Attempt | None:
    return attempts_of(instance).first()


def attempt_rows(instance: Instance, *, limit: int = 50) -> Sequence[Attempt]:
    """The newest attempts with what a table of them shows: how each went, not its command, checks or log."""
    return list(instance.attempts.only(*_ATTEMPT_ROW).order_by("-number")[:limit])


def attempt_detail(attempt_id: int) -> Attempt:
    """One attempt with its instance as `instance_details` has it; Attempt.DoesNotExist when it is not there."""
    attempt = Attempt.objects.defer("reader_state").get(pk=attempt_id)
    attempt.instance = instance_detail(attempt.instance_id)
    return attempt


def runs_on(instance: Instance, *, limit: int = 10) -> Sequence[Any]:
    """The latest benchmark runs measured on it. The app that has them is above this one, so its model is not named."""
    related: Any = instance
    return list(related.runs.select_related("workload").only(*_RUN_ROW).order_by("-pk")[:limit])


def transitions_of(instance: Instance, *, limit: int = 50) -> Sequence[Transition]:
    """The last changes of state, oldest first."""
    return list(reversed(instance.transitions.select_related("attempt").order_by("-id")[:limit]))


def preflight_detail(preflight_id: int) -> Preflight:
    """One preflight with where it would launch; Preflight.DoesNotExist when it is not there."""
    return Preflight.objects.select_related("config_version__config", "engine__host").get(pk=preflight_id)


# -- The log of an attempt -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LogRow:
    """One line as the page shows it: numbered from 1, its level and process, without colours and keys."""

    number: int
    level: Level
    process: str
    text: str


@dataclass(frozen=True, slots=True)
class LogPage:
    """`last_line` is the last line that was looked at, also when a filter left it out: go on after it. `is_end` says
    that nothing was copied beyond it yet."""

    lines: Sequence[LogRow]
    last_line: int
    is_end: bool


def log_lines(
    attempt: Attempt, *, after_line: int = 0, limit: int = 1000, search: str = "", level: str = ""
) -> LogPage:
    """Up to `limit` lines after line `after_line`, of those that hold `search` (in any case) and have the level."""
    wanted, found, last = clean(search).lower(), list[LogRow](), after_line
    previous: LogLine | None = None
    for number, raw in _raw_lines(attempt, after_line):
        line = previous = parse(raw, previous=previous)
        if number <= after_line:
            continue
        if len(found) == limit:
            return LogPage(found, last, is_end=False)
        last = number
        if (not level or line.level == level) and (not wanted or wanted in raw.lower()):
            found.append(LogRow(number, line.level, line.process, without_colour(raw)))
    return LogPage(found, last, is_end=True)


def last_lines(attempt: Attempt, count: int = 200) -> LogPage:
    """The end of the log as far as it was copied."""
    end = last_line_number(attempt)
    return log_lines(attempt, after_line=max(0, end - count), limit=count) if end else LogPage([], 0, is_end=True)


def last_line_number(attempt: Attempt) -> int:
    """How many lines of the log were copied."""
    tail = LogChunk.objects.filter(attempt=attempt).order_by("-offset").first()
    return tail.first_line_number + tail.text.rstrip("\n").count("\n") if tail else 0


def _raw_lines(attempt: Attempt, after_line: int) -> Any:
    """(number, line) from the piece that holds the line after `after_line`, so that a traceback keeps its level."""
    pieces = LogChunk.objects.filter(attempt=attempt).order_by("offset")
    first = pieces.filter(first_line_number__lte=after_line + 1).order_by("-offset").first()
    if first is not None:
        pieces = pieces.filter(offset__gte=first.offset)
    for piece in pieces.iterator(chunk_size=_LOG_BATCH):
        lines = piece.text.removesuffix("\n").split("\n")
        yield from enumerate(lines, start=piece.first_line_number)


# -- Choices of forms --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Offer(Generic[T]):
    """What a select lists of all that fits a search: the first so many, and before them what is chosen, fitting or not.

    `count` says how many fit of those listed; `has_more`, that others do which are not.
    """

    rows: Sequence[T]
    search: str
    count: int
    has_more: bool

    @property
    def is_searchable(self) -> bool:
        """A list that shows everything needs no search."""
        return self.has_more or bool(self.search)

    @property
    def is_missing(self) -> bool:
        """There is nothing at all to choose from."""
        return not self.rows and not self.search


@dataclass(frozen=True, slots=True)
class GpuChoice:
    """A GPU with what holds its memory and the live instances placed on it."""

    gpu: Accelerator
    holders: Sequence[Holder]
    instances: Sequence[Instance]

    @property
    def is_held_unseen(self) -> bool:
        """Memory is used and no process shows: another container's or another user's."""
        used = self.gpu.memory_used_bytes or 0
        return not self.holders and not self.instances and used >= inventory.UNSEEN_FROM_BYTES

    @property
    def is_free(self) -> bool:
        return not self.holders and not self.instances and not self.is_held_unseen


@dataclass(frozen=True, slots=True)
class Place:
    """The engine one chose, with the GPUs of its host. `taken_ports` belong to live instances there."""

    engine: Engine
    gpus: Sequence[GpuChoice]
    instances: Sequence[Instance]

    @property
    def taken_ports(self) -> list[int]:
        return sorted(instance.port for instance in self.instances)


def version_offer(*, search: str = "", chosen: ConfigVersion | None = None) -> Offer[ConfigVersion]:
    """Versions of configs that are not archived, newest first, without files and contents. Each word of `search` is
    part of the config's name or of the note, or a number (`v3`)."""
    found = ConfigVersion.objects.filter(config__archived_at=None)
    for word in _words(search):
        fits = Q(config__name__icontains=word) | Q(note__icontains=word)
        number = number_in(word.lower().removeprefix("v"))
        found = found.filter(fits if number is None else fits | Q(number=number))
    found = found.select_related("config").defer("toml", "content", "config__description")
    return _offer(found.order_by("-pk"), search, chosen)


def by_config(versions: Sequence[ConfigVersion]) -> list[tuple[str, list[ConfigVersion]]]:
    """(config, its versions from the newest), the config that stands first in `versions` first."""
    groups: dict[str, list[ConfigVersion]] = defaultdict(list)
    for version in versions:
        groups[version.config.name].append(version)
    return [(name, sorted(group, key=lambda version: -version.number)) for name, group in groups.items()]


def engine_offer(*, search: str = "", chosen: Engine | None = None) -> Offer[Engine]:
    """Engines that are there, by host. Each word of `search` is part of the host's name, of the engine's version,
    executable or kind, or of the name of a GPU in the host."""
    found = inventory.engines().filter(missing_since=None)
    for word in _words(search):
        gpus = Accelerator.objects.filter(host=OuterRef("host"), missing_since=None, name__icontains=word)
        named = Q(host__name__icontains=word) | Q(version__icontains=word) | Q(executable__icontains=word)
        found = found.filter(named | Q(device=word.lower()) | Exists(gpus))
    return _offer(found.order_by(Natural("host__name"), "executable"), search, chosen)


def usable_engine_of(host_id: int) -> Engine | None:
    """The first engine of a host with which something can be launched now."""
    found = inventory.engines().filter(missing_since=None, host=host_id).order_by("executable")
    return next((engine for engine in found if engine.is_usable), None)


def engine_numbered(text: str) -> Engine | None:
    """The engine of a number as addresses and forms write it; None when there is none."""
    number = number_in(text)
    return None if number is None else inventory.engines().filter(pk=number, missing_since=None).first()


def newest_number(config_id: int) -> int:
    """The number of the config's latest version, 0 without any."""
    return ConfigVersion.objects.filter(config=config_id).aggregate(last=Max("number"))["last"] or 0


def place_of(engine: Engine) -> Place:
    """The GPUs of the engine's host, each with what holds it; two queries without GPUs, else three."""
    live = Instance.objects.filter(state__in=LIVE_STATES, host=engine.host_id)
    here = list(live.only("name", "host", "state", "port", "gpu_uuids"))
    if engine.device != Engine.Device.GPU:
        return Place(engine, (), here)
    names = _names_by_nonce(live)
    gpus = Accelerator.objects.filter(host=engine.host_id, missing_since=None).order_by("index")
    return Place(engine, [_choice(gpu, here, names) for gpu in gpus], here)


def _offer(found: QuerySet[M], search: str, chosen: M | None) -> Offer[M]:
    fitting = list(found[: CHOICES_LISTED + 1])
    listed = fitting[:CHOICES_LISTED]
    kept = [] if chosen is None or chosen in listed else [chosen]
    return Offer([*kept, *listed], search, len(listed), len(fitting) > CHOICES_LISTED)


def number_in(text: str) -> int | None:
    """The number that a text is, if the database can hold it."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < _DIGITS else None


def _words(search: str) -> list[str]:
    return clean(search[:_SEARCH_LENGTH]).split()


def _names_by_nonce(live: QuerySet[Instance]) -> dict[str, str]:
    """Live instances by the launch nonce that their processes carry."""
    under_way = Attempt.objects.filter(outcome=Attempt.Outcome.RUNNING, instance__in=live)
    return {nonce: name for nonce, name in under_way.values_list("process__nonce", "instance__name") if nonce}


def _choice(gpu: Accelerator, here: Sequence[Instance], names: Mapping[str, str]) -> GpuChoice:
    placed = [instance for instance in here if gpu.uuid in instance.gpu_uuids]
    return GpuChoice(gpu, holders(gpu.processes, instance_of=names), placed)


def _rows() -> QuerySet[Instance]:
    return _joined().only(*_INSTANCE_ROW)


def _joined() -> QuerySet[Instance]:
    return Instance.objects.select_related("host", "engine", "config_version__config", "deployment__environment")
