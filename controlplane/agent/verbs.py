"""The verbs, each with the shape of its parameters. This table is the whole interface of the host program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Optional

from controlplane.agent import artifacts, engines, files, launching, loopback, machine, options, ports, stopping
from controlplane.agent.place import Place
from controlplane.protocol.artifacts import InspectModelRequest
from controlplane.protocol.engines import EngineOptionsRequest, FindEnginesRequest
from controlplane.protocol.launches import LaunchRef, ListRequest, PortRequest, StartRequest, StopRequest
from controlplane.protocol.machine import ProbeRequest
from controlplane.protocol.shapes import from_wire, to_wire
from controlplane.protocol.transfers import HttpRequest, PutRequest, ReadRequest
from controlplane.protocol.wire import VerbError


class Verb(NamedTuple):
    run: Callable[[Place, Any], Any]
    params: Optional[type] = None


VERBS: dict[str, Verb] = {
    "hello": Verb(lambda place, _: machine.hello(place)),
    "probe": Verb(machine.probe, ProbeRequest),
    "telemetry": Verb(lambda place, _: machine.telemetry(place)),
    "find_engines": Verb(lambda _, wanted: engines.find(wanted), FindEnginesRequest),
    "engine_options": Verb(lambda _, wanted: options.read(wanted), EngineOptionsRequest),
    "inspect_model": Verb(lambda _, wanted: artifacts.inspect(wanted), InspectModelRequest),
    "adoptable": Verb(lambda place, _: engines.adoptable(place)),
    "check_port": Verb(lambda place, wanted: ports.status(wanted.port, place.processes), PortRequest),
    "start": Verb(launching.start, StartRequest),
    "stop": Verb(stopping.stop, StopRequest),
    "list": Verb(launching.listing, ListRequest),
    "describe": Verb(launching.describe, LaunchRef),
    "remove": Verb(launching.remove, LaunchRef),
    "read_file": Verb(files.read, ReadRequest),
    "put_file": Verb(files.put, PutRequest),
    "http": Verb(lambda _, wanted: loopback.request(wanted), HttpRequest),
}


def call(place: Place, name: str, params: dict[str, Any]) -> Any:
    """Carry out one verb. Raises VerbError for refusals and ShapeError for parameters of the wrong shape."""
    verb = VERBS.get(name)
    if verb is None:
        raise VerbError(
            "unknown_verb", f"The host program has no verb {name!r}.", "Control plane and host program differ."
        )
    request = from_wire(verb.params, params) if verb.params else None
    return to_wire(verb.run(place, request))
