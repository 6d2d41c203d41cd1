"""One look at an instance's launch: what the host says, as the lifecycle understands it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from controlplane.core.errors import Problem
from controlplane.drivers.errors import HostError, HostRefused
from controlplane.fleet.domain.lifecycle import Observation, Seen
from controlplane.fleet.models import Attempt, Instance
from controlplane.inventory.services import call_host

SILENT = Observation(Seen.SILENT)
ABSENT = Observation(Seen.ABSENT)


@dataclass(frozen=True, slots=True)
class Sighting:
    """`launch` is what the host program told (protocol.launches.Launch as JSON); {} when there is nothing of it."""

    observation: Observation
    launch: Mapping[str, Any] = field(default_factory=dict)

    @property
    def exit(self) -> Mapping[str, Any]:
        """How it ended, as far as somebody saw it."""
        return self.launch.get("exit") or {}


def look(instance: Instance, attempt: Attempt | None) -> Sighting:
    """Ask the host about the newest attempt. A host that cannot be asked says nothing: never "not there"."""
    if attempt is None:
        return Sighting(ABSENT)
    try:
        launch = call_host(instance.host, "describe", {"launch_id": attempt.launch_id})
    except HostRefused as refusal:
        return Sighting(ABSENT if refusal.code == "unknown_launch" else SILENT)
    except (HostError, Problem):  # noted on the host by call_host; a Problem is a host key that nobody has pinned
        return Sighting(SILENT)
    return sighting_of(launch)


def sighting_of(launch: Mapping[str, Any] | None) -> Sighting:
    """What one entry of a listing means; None: a complete listing without it."""
    if launch is None:
        return Sighting(ABSENT)
    return Sighting(_observation(launch), launch)


def observation_of_stop(report: Mapping[str, Any]) -> Observation:
    """What a stop found at its end (protocol.launches.StopReport as JSON)."""
    exit_record = report.get("exit") or {}
    return Observation(
        Seen.EXITED,
        exit_code=exit_record.get("rc"),
        leftovers=tuple(process["pid"] for process in report["still_alive"]),
        held=(
            *(f"port {holder['port']}" for holder in report.get("ports_held") or []),
            *(f"GPU memory of process {pid}" for pid in report.get("gpu_pids_held") or []),
        ),
    )


def _observation(launch: Mapping[str, Any]) -> Observation:
    exit_record = launch.get("exit") or {}
    if launch["is_main_alive"]:
        return Observation(Seen.RUNNING)
    leftovers = tuple(process["pid"] for process in launch["processes"])
    if launch["is_keeper_alive"] and not exit_record.get("is_complete"):
        return Observation(Seen.ENDING, leftovers=leftovers)
    if exit_record:
        return Observation(Seen.EXITED, exit_code=exit_record.get("rc"), leftovers=leftovers)
    return Observation(Seen.ABSENT, leftovers=leftovers)  # claimed and not started yet, or gone with nobody watching
