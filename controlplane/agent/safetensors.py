"""Count parameters from the headers of safetensors files.

A file starts with the header's length (8 bytes, little endian) and the header: JSON, per tensor its dtype, shape and
byte range (https://github.com/huggingface/safetensors, "Format").
"""

from __future__ import annotations

import json
import math
import struct
from pathlib import Path
from typing import Any, Optional

from controlplane.protocol.artifacts import Parameters
from controlplane.protocol.wire import Failure

_HEADER_LIMIT_BYTES = 100_000_000  # the format's own limit
_INT32_BITS, _BYTE_BITS = 32, 8
# Beside the packed weights lie their scales, zero points and order: not weights of the model.
_COMPANIONS = ("scales", "qzeros", "g_idx", "weight_scale", "weight_zero_point", "weight_g_idx", "weight_shape")
_COMPANION_MARKS = (".absmax", ".quant_map", ".nested_", ".quant_state", "input_scale", "weight_scale_inv")


class _DamagedError(Exception):
    """A file that is not what it says; the text says how."""


def count(files: list[Path], bits: Optional[int], problems: list[Failure]) -> Optional[Parameters]:
    """Add up all files. What is wrong with one goes to `problems`; None when no header could be read."""
    stored, unpacked = 0, 0
    dtypes: dict[str, int] = {}
    is_estimate, is_read = False, False
    for file in files:
        try:
            tensors = header(file)
        except _DamagedError as damage:
            problems.append(Failure("weights_damaged", str(damage), "Download this file again."))
            is_estimate = True
            continue
        except PermissionError:
            problems.append(Failure("not_allowed", f"{file} may not be read by this user.", "Give read permission."))
            is_estimate = True
            continue
        except OSError as error:
            problems.append(Failure("weights_missing", f"{file}: {error.strerror}.", "Finish the download."))
            is_estimate = True
            continue
        is_read = True
        for name, (dtype, elements) in tensors.items():
            stored += elements
            dtypes[dtype] = dtypes.get(dtype, 0) + elements
            factor = _weights_per_element(name, dtype, bits)
            unpacked += int(elements * factor)
            is_estimate = is_estimate or factor != 1
    return Parameters(stored, unpacked, is_estimate, dtypes) if is_read else None


def header(file: Path) -> dict[str, tuple[str, int]]:
    """Type and number of elements by tensor name. Raises _DamagedError when the file is cut or of another kind."""
    size = file.stat().st_size
    with file.open("rb") as stream:
        start = stream.read(8)
        if len(start) < 8:
            raise _DamagedError(f"{file.name} is cut off: {size} bytes.")
        (length,) = struct.unpack("<Q", start)
        if length > _HEADER_LIMIT_BYTES:
            raise _DamagedError(f"{file.name} is not a safetensors file.")
        if 8 + length > size:
            raise _DamagedError(f"{file.name} is cut off inside its header: {size} of more than {8 + length} bytes.")
        raw = stream.read(length)
    try:
        tensors = json.loads(raw)
        entries = {name: entry for name, entry in tensors.items() if name != "__metadata__"}
        wanted = 8 + length + max((entry["data_offsets"][1] for entry in entries.values()), default=0)
        read = {name: _elements(entry) for name, entry in entries.items()}
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise _DamagedError(f"{file.name} is not a safetensors file: its header cannot be read.") from error
    if wanted > size:
        raise _DamagedError(f"{file.name} is cut off: {size} of {wanted} bytes.")
    return read


def _elements(entry: dict[str, Any]) -> tuple[str, int]:
    return str(entry["dtype"]), math.prod(entry["shape"])


def _weights_per_element(name: str, dtype: str, bits: Optional[int]) -> float:
    """How many weights of the model one stored element stands for."""
    if bits is None:
        return 1
    if name.rsplit(".", 1)[-1] in _COMPANIONS or any(mark in name for mark in _COMPANION_MARKS):
        return 0
    if name.endswith((".qweight", ".weight_packed")) and dtype in ("I32", "U32"):  # GPTQ, AWQ, compressed-tensors
        return _INT32_BITS / bits
    if name.endswith((".weight", ".weight_packed")) and dtype in ("U8", "I8") and bits < _BYTE_BITS:
        return _BYTE_BITS / bits  # bitsandbytes, NVFP4
    return 1
