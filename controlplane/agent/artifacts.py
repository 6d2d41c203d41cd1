"""Read a model directory: config.json, tokenizer, and the headers of the weight files. No weights are loaded."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any, Optional

from controlplane.agent import safetensors
from controlplane.protocol.artifacts import InspectModelRequest, ModelFacts, Quantization, WeightFile
from controlplane.protocol.wire import Failure, VerbError

_FORMATS = (("safetensors", ".safetensors"), ("bin", ".bin"), ("gguf", ".gguf"))
_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json", "tekken.json", "tiktoken.model", "spiece.model")
_NOT_WEIGHTS = ("training_args.bin", "optimizer.bin", "scheduler.bin")
_TEMPLATES = ("chat_template.jinja", "chat_template.json")
_INDEXES = ("model.safetensors.index.json", "pytorch_model.bin.index.json")


def inspect(request: InspectModelRequest) -> ModelFacts:
    """Facts about the model at a path. Raises VerbError when there is none or it may not be read."""
    folder = Path(request.path).expanduser()
    names = _names(folder)
    raw = _config(folder)
    config = _object(raw, folder / "config.json")
    text = config.get("text_config") if isinstance(config.get("text_config"), dict) else None
    model = {**config, **text} if text else config
    kind, files = _weight_files(folder, names)
    problems = _missing_files(folder, files)
    counted = safetensors.count(
        [folder / file.name for file in files] if kind == "safetensors" else [], _bits(config), problems
    )
    if not files:
        problems.append(Failure("no_weights", f"{folder} has no weight files.", "Download the model's weights."))
    return ModelFacts(
        path=request.path,
        resolved_path=str(folder.resolve()),
        architectures=[name for name in config.get("architectures") or [] if isinstance(name, str)],
        model_type=_text(config, "model_type"),
        is_multimodal=text is not None,
        num_hidden_layers=_count(model, "num_hidden_layers", "n_layer", "num_layers", "n_layers"),
        num_attention_heads=_heads(model),
        num_key_value_heads=_count(model, "num_key_value_heads", "num_kv_heads", "multi_query_group_num")
        or (1 if model.get("multi_query") is True else _heads(model)),
        head_dim=_head_dim(model),
        hidden_size=_hidden_size(model),
        vocab_size=_count(model, "vocab_size", "padded_vocab_size"),
        max_position_embeddings=_count(
            model, "max_position_embeddings", "n_positions", "max_sequence_length", "seq_length", "max_seq_len"
        ),
        sliding_window=_count(model, "sliding_window") if model.get("use_sliding_window", True) else None,
        dtype=_text(model, "dtype", "torch_dtype") or _text(config, "dtype", "torch_dtype"),
        quantization=_quantization(config),
        parameters=counted,
        weights_bytes=sum(file.size_bytes for file in files),
        total_bytes=sum(_size(folder / name) for name in names),
        weight_format=kind,
        weight_files=files,
        has_tokenizer=any(name in names for name in _TOKENIZERS),
        has_chat_template=_has_chat_template(folder, names),
        config_digest=hashlib.sha256(raw).hexdigest(),
        num_local_experts=_count(model, "num_local_experts", "n_routed_experts", "num_experts"),
        kv_lora_rank=_count(model, "kv_lora_rank"),
        qk_rope_head_dim=_count(model, "qk_rope_head_dim"),
        problems=problems,
    )


def _names(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))  # noqa: PTH208 - names are what is wanted
    except FileNotFoundError as error:
        raise VerbError(
            "no_such_path", f"There is no {folder} on this host.", "Check the path; it is read on the host, not here."
        ) from error
    except NotADirectoryError as error:
        raise VerbError(
            "not_a_directory", f"{folder} is a file.", "Give the directory that holds config.json."
        ) from error
    except PermissionError as error:
        raise _not_allowed(folder) from error


def _config(folder: Path) -> bytes:
    try:
        return (folder / "config.json").read_bytes()
    except FileNotFoundError as error:
        raise VerbError(
            "no_config", f"{folder} has no config.json.", "Give the model's own directory, after a complete download."
        ) from error
    except PermissionError as error:
        raise _not_allowed(folder / "config.json") from error


def _not_allowed(path: Path) -> VerbError:
    return VerbError("not_allowed", f"{path} may not be read by this user.", "Give the SSH user read permission.")


def _object(raw: bytes, file: Path) -> dict[str, Any]:
    try:
        value = json.loads(raw)
    except ValueError as error:
        raise VerbError("bad_config", f"{file} is not JSON: {error}", "Download it again.") from error
    if not isinstance(value, dict):
        raise VerbError("bad_config", f"{file} is not a JSON object.", "Download it again.")
    return value


def _weight_files(folder: Path, names: list[str]) -> tuple[Optional[str], list[WeightFile]]:
    """The files that vLLM would load: safetensors first; a consolidated copy only when there is nothing else."""
    for kind, suffix in _FORMATS:
        found = [name for name in names if name.endswith(suffix) and name not in _NOT_WEIGHTS]
        own = [name for name in found if not name.startswith("consolidated")]
        if found:
            return kind, [WeightFile(name, _size(folder / name)) for name in own or found]
    return None, []


def _missing_files(folder: Path, files: list[WeightFile]) -> list[Failure]:
    """Files that the index names and the directory does not have."""
    problems = []
    present = {file.name for file in files}
    for name in _INDEXES:
        try:
            index = json.loads((folder / name).read_bytes())
        except (OSError, ValueError):  # most models have none
            continue
        named = index.get("weight_map") if isinstance(index, dict) else None
        missing = sorted({str(file) for file in named.values()} - present) if isinstance(named, dict) else []
        if missing and (not files or missing[0].endswith(Path(files[0].name).suffix)):
            problems.append(
                Failure(
                    "weights_missing",
                    f"{len(missing)} weight file(s) named in {name} are missing, {missing[0]} first.",
                    "Finish the download.",
                )
            )
    return problems


def _quantization(config: dict[str, Any]) -> Optional[Quantization]:
    found = config.get("quantization_config") or config.get("compression_config")
    if not isinstance(found, dict):
        return None
    return Quantization(
        method=str(found.get("quant_method") or found.get("quant_algo") or "unknown"),
        bits=_bits(config),
        group_size=_count(found, "group_size", "q_group_size"),
    )


def _bits(config: dict[str, Any]) -> Optional[int]:
    """Bits per weight, wherever the quantiser in question writes them."""
    found = config.get("quantization_config") or config.get("compression_config")
    if not isinstance(found, dict):
        return None
    if found.get("load_in_4bit"):
        return 4
    if found.get("load_in_8bit") or found.get("quant_method") == "fp8":
        return 8
    for group in (found.get("config_groups") or {}).values() if isinstance(found.get("config_groups"), dict) else ():
        weights = group.get("weights") if isinstance(group, dict) else None
        if isinstance(weights, dict) and _count(weights, "num_bits"):
            return _count(weights, "num_bits")
    return _count(found, "bits", "w_bit", "num_bits")


def _heads(model: dict[str, Any]) -> Optional[int]:
    return _count(model, "num_attention_heads", "n_head", "num_heads", "n_heads")


def _hidden_size(model: dict[str, Any]) -> Optional[int]:
    return _count(model, "hidden_size", "n_embd", "d_model")


def _head_dim(model: dict[str, Any]) -> Optional[int]:
    hidden, heads = _hidden_size(model), _heads(model)
    return _count(model, "head_dim", "kv_channels") or (hidden // heads if hidden and heads else None)


def _has_chat_template(folder: Path, names: list[str]) -> bool:
    if any(name in names for name in _TEMPLATES):
        return True
    try:
        tokenizer = json.loads((folder / "tokenizer_config.json").read_bytes())
    except (OSError, ValueError):
        return False
    return isinstance(tokenizer, dict) and bool(tokenizer.get("chat_template"))


def _count(values: dict[str, Any], *names: str) -> Optional[int]:
    """The first of these keys that holds a positive whole number."""
    for name in names:
        value = values.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return None


def _text(values: dict[str, Any], *names: str) -> Optional[str]:
    for name in names:
        if isinstance(values.get(name), str):
            return str(values[name])
    return None


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:  # a link to nowhere: the hub's cache after a broken download
        return 0
