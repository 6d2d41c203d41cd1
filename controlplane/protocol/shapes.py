"""Dataclasses to plain JSON values and back.

The reader is forgiving where versions may differ (unknown keys are skipped, absent keys take their default) and
strict where a mistake would hurt (a wrong type or an absent key without default raises `ShapeError` naming the
place).
"""

from __future__ import annotations

import dataclasses
from functools import cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")


class ShapeError(ValueError):
    """A message does not have the shape that its receiver expects."""


def to_wire(value: Any) -> Any:
    """Turn dataclasses, nested anywhere in lists and dicts, into values that `json.dumps` accepts."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_wire(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {key: to_wire(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_wire(item) for item in value]
    return value


def from_wire(shape: type[T], data: Any) -> T:
    """Build the dataclass `shape` from a decoded JSON object; `ShapeError` says what is wrong and where."""
    built: T = _build(shape, data, shape.__name__)
    return built


def _build(shape: Any, data: Any, where: str) -> Any:
    if not isinstance(data, dict):
        raise ShapeError(f"{where} must be an object, got {type(data).__name__}")
    hints = _hints(shape)
    values: dict[str, Any] = {}
    for field in dataclasses.fields(shape):
        place = f"{where}.{field.name}"
        if field.name in data:
            values[field.name] = _read(hints[field.name], data[field.name], place)
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise ShapeError(f"{place} is missing")
    return shape(**values)


@cache
def _hints(shape: Any) -> dict[str, Any]:
    return get_type_hints(shape)


def _read(hint: Any, value: Any, where: str) -> Any:
    if hint is Any:
        return value
    origin, args = get_origin(hint), get_args(hint)
    if origin is Union:  # only Optional[X] is used in the shapes
        return None if value is None else _read(args[0], value, where)
    if origin is list:
        if not isinstance(value, list):
            raise ShapeError(f"{where} must be a list, got {type(value).__name__}")
        return [_read(args[0], item, f"{where}[{index}]") for index, item in enumerate(value)]
    if origin is dict:
        if not isinstance(value, dict):
            raise ShapeError(f"{where} must be an object, got {type(value).__name__}")
        return {key: _read(args[1], item, f"{where}.{key}") for key, item in value.items()}
    if dataclasses.is_dataclass(hint):
        return _build(hint, value, where)
    return _scalar(hint, value, where)


def _scalar(hint: Any, value: Any, where: str) -> Any:
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if (isinstance(value, bool) and hint is not bool) or not isinstance(value, hint):
        # The value itself is not repeated: it may be a secret that landed in the wrong place.
        raise ShapeError(f"{where} must be {hint.__name__}, got {type(value).__name__}")
    return value
