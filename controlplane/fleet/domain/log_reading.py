"""Reading a starting vLLM server's log as it grows: the facts a launch page shows, and the steps with their time.

The log arrives in pieces of any size, some of them minutes apart and read by different workers, so a reader can be put
into the database (`to_state`) and taken out again (`from_state`). Forms of every release from 0.8 to 0.33 are read;
which line came with which release is in the table `_READINGS`.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any

from .log_lines import Level, LogLine, parse
from .redaction import redact
from .texts import GB, GIB

STARTED, WEIGHTS, KV_CACHE, GRAPHS, LISTENING = ("started", "weights", "kv_cache", "graphs", "listening")
STEP_ORDER = (STARTED, WEIGHTS, KV_CACHE, GRAPHS, LISTENING)

# V0's block size unless the arguments say otherwise; V1 prints tokens, so nothing is multiplied there.
_V0_BLOCK_SIZE = 16
# A line without an end is cut here: a broken writer must not fill the database row the state lives in.
_LONGEST_LINE = 64 * 1024


@dataclass(frozen=True)
class Step:
    """One step of starting. `seconds` counts from the first stamped line; None when the log carries no times."""

    name: str
    at_line: int
    seconds: float | None


@dataclass(frozen=True)
class StartupFacts:
    """What the log has said so far. None means "not said (yet)". Sizes as printed, so good to two decimals of a GiB.

    With several data-parallel engines `kv_cache_tokens` and `max_concurrency` are those of the smallest engine;
    `weights_bytes` is the largest share any worker loaded.
    """

    vllm_version: str | None = None
    engine_config_line: str | None = None
    weights_bytes: int | None = None
    weights_s: float | None = None
    available_kv_bytes: int | None = None
    kv_cache_tokens: int | None = None
    kv_blocks: int | None = None
    block_size: int | None = None
    max_model_len_seen: int | None = None
    max_concurrency: float | None = None
    is_eager: bool | None = None
    graph_capture_s: float | None = None
    graph_bytes: int | None = None
    init_engine_s: float | None = None
    listening_url: str | None = None
    startup_complete: bool = False
    steps: tuple[Step, ...] = ()

    @property
    def reached(self) -> str | None:
        """The last step reached, or None when nothing was written yet."""
        return self.steps[-1].name if self.steps else None


@dataclass(frozen=True)
class ReadLine:
    """A finished line as the page shows it: numbered from 1, classified, without colours and keys."""

    number: int
    level: Level
    process: str
    text: str


class LogReader:
    """Feed it the log piece by piece; `facts` is what is known so far."""

    def __init__(self) -> None:
        self.facts = StartupFacts()
        self.line_number = 0
        self._pending = ""
        self._skips_rest = False
        self._previous: LogLine | None = None
        self._began: str | None = None
        self._elapsed_s: float | None = None

    def feed(self, chunk: str) -> tuple[ReadLine, ...]:
        """Read more of the log; returns the lines this piece completed. A piece may end anywhere."""
        *finished, self._pending = (self._pending + self._continuation(chunk)).split("\n")
        self._pending = self._pending[-_LONGEST_LINE:]
        return tuple(self._read(line) for line in finished)

    def finish(self) -> tuple[ReadLine, ...]:
        """The writer is gone: read what stands after the last line end, too."""
        last, self._pending = self._pending, ""
        return (self._read(last),) if last else ()

    def to_state(self) -> dict[str, Any]:
        """Everything needed to go on later, as JSON values, without keys.

        A line that was cut in the middle of a key is kept without it, and the rest of that line is not read.
        """
        pending = redact(self._pending)
        return {
            "facts": asdict(self.facts),
            "line_number": self.line_number,
            "pending": pending,
            "skips_rest": self._skips_rest or pending != self._pending,
            "in_error": self._previous is not None and self._previous.level == "error" and self._previous.stamp is None,
            "began": self._began,
            "elapsed_s": self._elapsed_s,
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> "LogReader":
        """Go on where `to_state` stopped. Fields an older release did not write take their defaults."""
        reader = cls()
        facts = {key: held for key, held in state.get("facts", {}).items() if key in StartupFacts.__dataclass_fields__}
        facts["steps"] = tuple(Step(**step) for step in facts.get("steps", ()))
        reader.facts = StartupFacts(**facts)
        reader.line_number = state.get("line_number", 0)
        reader._pending = state.get("pending", "")
        reader._skips_rest = state.get("skips_rest", False)
        reader._previous = LogLine("", "error", "") if state.get("in_error") else None
        reader._began = state.get("began")
        reader._elapsed_s = state.get("elapsed_s")
        return reader

    def _continuation(self, chunk: str) -> str:
        """What of `chunk` may be read: all of it, or only what follows the line whose rest is skipped."""
        if not self._skips_rest:
            return chunk
        _, line_end, following = chunk.partition("\n")
        self._skips_rest = not line_end
        return line_end + following

    def _read(self, raw: str) -> ReadLine:
        self.line_number += 1
        line = parse(raw, previous=self._previous)
        self._previous = line
        self._tell_time(line)
        if self.line_number == 1:
            self._reach(STARTED)
        # After startup the log is traffic; only a second start would repeat these lines, and that is another attempt.
        if not self.facts.startup_complete:
            self._learn(line.message)
        return ReadLine(self.line_number, line.level, line.process, redact(line.message))

    def _learn(self, message: str) -> None:
        for needle, pattern, learn in _READINGS:
            if needle in message and (found := pattern.search(message)):
                self.facts = replace(self.facts, **learn(found, self.facts))
        for needle, name in _STEPS:
            if needle in message:
                self._reach(name)

    def _reach(self, name: str) -> None:
        if all(step.name != name for step in self.facts.steps):
            step = Step(name, self.line_number, 0.0 if name == STARTED else self._elapsed_s)
            self.facts = replace(self.facts, steps=(*self.facts.steps, step))

    def _tell_time(self, line: LogLine) -> None:
        if line.stamp is None:
            return
        # vLLM writes no year. A leap year accepts every date; a start over New Year is put right by one year.
        now = datetime(2000, *line.stamp)
        if self._began is None:
            self._began = now.isoformat()
        elapsed = (now - datetime.fromisoformat(self._began)).total_seconds()
        if elapsed < -_HALF_A_YEAR_S:
            elapsed += _LEAP_YEAR_S
        # Worker processes print in their own order; time never runs backwards on the page.
        self._elapsed_s = max(elapsed, self._elapsed_s or 0.0)


def is_nearly_up(facts: Mapping[str, Any]) -> bool:
    """Whether a start is in its last seconds: graphs captured, or the KV cache made where none are. `facts` are
    StartupFacts as a dict, {} when nothing was read."""
    reached = {step["name"] for step in facts.get("steps", ())}
    return bool({GRAPHS, LISTENING} & reached or (KV_CACHE in reached and facts.get("is_eager")))


def read_whole(log_text: str) -> StartupFacts:
    """The facts of a log that is complete."""
    reader = LogReader()
    reader.feed(log_text)
    reader.finish()
    return reader.facts


_LEAP_YEAR_S = 366 * 86_400
_HALF_A_YEAR_S = _LEAP_YEAR_S / 2

_Learn = Callable[[re.Match[str], StartupFacts], Mapping[str, Any]]


def _size(amount: str, unit: str) -> int:
    return round(float(amount) * (GIB if unit == "GiB" else GB))


def _int(text: str) -> int:
    return int(text.replace(",", ""))


def _smallest(old: Any, new: Any) -> Any:
    return new if old is None else min(old, new)


def _weights(found: re.Match[str], known: StartupFacts) -> Mapping[str, Any]:
    loaded = _size(found["size"], found["unit"])
    seconds = float(found["seconds"]) if found["seconds"] else known.weights_s
    return {"weights_bytes": max(loaded, known.weights_bytes or 0), "weights_s": seconds}


def _weights_time(found: re.Match[str], known: StartupFacts) -> Mapping[str, Any]:
    # Printed per worker and before "Model loading took", which includes it and wins.
    return {"weights_s": float(found[1])} if known.weights_bytes is None else {}


def _kv_tokens(found: re.Match[str], known: StartupFacts) -> Mapping[str, Any]:
    return {"kv_cache_tokens": _smallest(known.kv_cache_tokens, _int(found[1]))}


def _concurrency(found: re.Match[str], known: StartupFacts) -> Mapping[str, Any]:
    return {
        "max_model_len_seen": _int(found[1]),
        "max_concurrency": _smallest(known.max_concurrency, float(found[2].replace(",", ""))),
    }


def _v0_blocks(found: re.Match[str], known: StartupFacts) -> Mapping[str, Any]:
    blocks = _smallest(known.kv_blocks, int(found[1]))
    return {"kv_blocks": blocks, "kv_cache_tokens": blocks * (known.block_size or _V0_BLOCK_SIZE)}


def _engine_config(found: re.Match[str], known: StartupFacts) -> Mapping[str, Any]:
    line = redact(found.string)
    eager = re.search(r"enforce_eager=(True|False)", line)
    longest = re.search(r"max_seq_len=(\d+)", line)
    return {
        "vllm_version": found[1],
        "engine_config_line": line,
        "is_eager": eager[1] == "True" if eager else known.is_eager,
        "max_model_len_seen": int(longest[1]) if longest else known.max_model_len_seen,
    }


def _size_into(field: str) -> _Learn:
    return lambda found, known: {field: _size(found[1], found[2])}


def _first(field: str) -> _Learn:
    return lambda found, known: {} if getattr(known, field) is not None else {field: found[1]}


# (a plain substring that keeps the regular expressions off most lines, the pattern, what it teaches)
_READINGS: tuple[tuple[str, re.Pattern[str], _Learn], ...] = (
    # 0.8 to 0.10 "vLLM API server version X"; from about 0.11 a banner, "version X" beside the logo
    ("version ", re.compile(r"(?:vLLM API server |[█▀▄ ] +)version (\d+\.\d+\S*)"), _first("vllm_version")),
    ("LLM engine (v", re.compile(r"LLM engine \(v([^)]+)\) with config"), _engine_config),
    ("block_size", re.compile(r"\bblock_size'?[=:] ?(\d+)"), lambda found, known: {"block_size": int(found[1])}),
    ("Using max model len", re.compile(r"Using max model len (\d+)"), lambda f, k: {"max_model_len_seen": int(f[1])}),
    # 0.8.0 "Model loading took 14.2487 GB and 3.2 seconds"; 0.8.5 GiB; 0.11.2+ "GiB memory and"
    (
        "odel loading took",
        re.compile(r"odel loading took (?P<size>[\d.]+) (?P<unit>Gi?B)(?: memory)?(?: and (?P<seconds>[\d.]+) s)?"),
        _weights,
    ),
    (
        "oading model weights took",
        re.compile(r"oading model weights took (?P<size>[\d.]+) (?P<unit>Gi?B)(?: and (?P<seconds>[\d.]+) s)?"),
        _weights,
    ),
    ("oading weights took", re.compile(r"oading weights took ([\d.]+) s"), _weights_time),
    (
        "vailable KV cache memory:",
        re.compile(r"vailable KV cache memory: (-?[\d.]+) ?(Gi?B)"),
        _size_into("available_kv_bytes"),
    ),
    # CPU builds: "Explicitly set (1.0/23.54) GiB for KV cache on node 0."
    ("for KV cache on node", re.compile(r"\(([\d.]+)/[\d.]+\) (Gi?B) for KV cache"), _size_into("available_kv_bytes")),
    # "GPU" up to 0.32, a device or pool name from 0.33, "CPU" on CPU builds
    ("KV cache size:", re.compile(r"KV cache size: ([\d,]+) tokens"), _kv_tokens),
    ("blocks:", re.compile(r"# \w+ blocks: (\d+), # CPU blocks: \d+"), _v0_blocks),
    # a line of its own to 0.27, the second half of the KV line from 0.28
    (
        "aximum concurrency for",
        re.compile(r"aximum concurrency for ([\d,]+) tokens per request: ([\d.,]+)x"),
        _concurrency,
    ),
    (
        "raph capturing finished",
        re.compile(r"raph capturing finished in ([\d.]+) s(?:ecs?)?(?:, took (-?[\d.]+) (Gi?B))?"),
        lambda found, known: {
            "graph_capture_s": float(found[1]),
            "graph_bytes": _size(found[2], found[3]) if found[2] else known.graph_bytes,
        },
    ),
    # "took N seconds" to 0.19, "took N s (compilation: ...)" from 0.20
    ("init engine (", re.compile(r"init engine \(.*?\) took ([\d.]+) s"), lambda f, k: {"init_engine_s": float(f[1])}),
    # "Starting vLLM API server on" 0.8, "... server 0 on" 0.9 to 0.17, "Starting vLLM server on" from 0.18
    ("Starting vLLM", re.compile(r"Starting vLLM (?:API )?server(?: \d+)? on (\S+)"), _first("listening_url")),
    (
        "Application startup complete",
        re.compile("Application startup complete"),
        lambda f, k: {"startup_complete": True},
    ),
)

_STEPS = (
    ("odel loading took", WEIGHTS),
    ("oading model weights took", WEIGHTS),
    ("oading weights took", WEIGHTS),
    ("KV cache size:", KV_CACHE),
    ("# CPU blocks:", KV_CACHE),
    ("raph capturing finished", GRAPHS),
    ("Application startup complete", LISTENING),
)
