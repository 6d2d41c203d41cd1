"""The few figures of a model that people look for, out of what the host program read (`protocol.artifacts`)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Summary:
    """None where the files do not tell. `parameters` counts weights, packed ones unpacked."""

    architecture: str | None = None
    parameters: int | None = None
    is_estimate: bool = False
    dtype: str | None = None
    quantisation: str | None = None
    size_bytes: int | None = None
    max_positions: int | None = None

    @property
    def parameters_short(self) -> str | None:
        return short_count(self.parameters)


def summary(facts: Mapping[str, Any]) -> Summary:
    """`facts` as the host program answered them; {} gives a summary of unknowns."""
    parameters = facts.get("parameters") or {}
    return Summary(
        architecture=next(iter(facts.get("architectures") or []), None),
        parameters=parameters.get("unpacked"),
        is_estimate=bool(parameters.get("is_estimate")),
        dtype=facts.get("dtype"),
        quantisation=quantisation(facts.get("quantization")),
        size_bytes=facts.get("total_bytes"),
        max_positions=facts.get("max_position_embeddings"),
    )


def quantisation(found: Mapping[str, Any] | None) -> str | None:
    """ "awq, 4 bit"; None for weights as they were trained."""
    if not found:
        return None
    bits = found.get("bits")
    return f"{found['method']}, {bits} bit" if bits else str(found["method"])


def short_count(parameters: int | None) -> str | None:
    """1,720,000 → "1.72 M", 32,763,876,352 → "32.8 B": how people name a model's size."""
    if parameters is None:
        return None
    for size, letter in ((10**12, "T"), (10**9, "B"), (10**6, "M"), (10**3, "K")):
        if parameters >= size:
            return f"{parameters / size:.3g} {letter}"
    return str(parameters)
