"""Real logs, whole and in part, and what the diagnosis makes of a log."""

from pathlib import Path

from controlplane.fleet.domain.diagnosis import Diagnosis, explain

DATA = Path(__file__).parent / "data"
UP = "INFO:     Application startup complete.\n"


def sample(name: str) -> str:
    return (DATA / "logs" / name).read_bytes().decode()


def diagnose(log_text: str, exit_code: int | None = 1, **more: object) -> Diagnosis:
    return explain(log_text=log_text, exit_code=exit_code, stop_requested=False, **more)  # type: ignore[arg-type]


def until(name: str, needle: str) -> str:
    """The beginning of a real log, up to and with the first line that holds `needle`."""
    lines = sample(name).split("\n")
    return "\n".join(lines[: next(index for index, line in enumerate(lines) if needle in line) + 1])


# Real logs of 0.32 with the first line that belongs to their end: up to there the server was well.
HEALTHY_UNTIL = {
    "illegal-instruction.log": "died unexpectedly",
    "kill-group-sigterm-inflight.log": "shutdown triggered",
    "kill-sigkill-engine.log": "exited unexpectedly",
    "kill-sigkill-worker.log": "died unexpectedly",
    "kill-sigterm-inflight-then-2nd-sigterm.log": "shutdown triggered",
    "sigterm-inflight-hang-2.log": "shutdown triggered",
    "startup-and-load-eager.log": "shutdown triggered",
    "startup.log": "shutdown triggered",
}


def healthy(name: str) -> str:
    """The part of a real log in which nothing was wrong: start-up and, of most, traffic with its errors of clients."""
    lines = until(name, HEALTHY_UNTIL[name]).split("\n")
    return "\n".join(lines[:-1])
