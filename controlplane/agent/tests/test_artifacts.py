"""What can be told of a model from its files, and what is wrong with them."""

from __future__ import annotations

import json
import os
import struct
from pathlib import Path
from typing import Any

import pytest

from controlplane.agent.artifacts import inspect
from controlplane.protocol.artifacts import InspectModelRequest, ModelFacts, Quantization
from controlplane.protocol.wire import VerbError

LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "hidden_size": 64,
    "vocab_size": 100,
    "max_position_embeddings": 2048,
    "torch_dtype": "bfloat16",
}
_SIZES = {"BF16": 2, "F16": 2, "F32": 4, "I32": 4, "U8": 1, "F8_E4M3": 1}


def save_tensors(file: Path, tensors: dict[str, tuple[str, list[int]]], cut: int = 0) -> None:
    """A safetensors file of zeros, shortened by `cut` bytes."""
    entries: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, (dtype, shape) in tensors.items():
        size = _SIZES[dtype]
        for length in shape:
            size *= length
        entries[name] = {"dtype": dtype, "shape": shape, "data_offsets": [end, end + size]}
        end += size
    header = json.dumps(entries).encode()
    content = struct.pack("<Q", len(header)) + header + bytes(end)
    file.write_bytes(content[: len(content) - cut])


def model(folder: Path, config: dict[str, Any] | None = None) -> ModelFacts:
    (folder / "config.json").write_text(json.dumps(config or LLAMA))
    return inspect(InspectModelRequest(str(folder)))


def test_a_plain_model_is_described_completely(tmp_path: Path) -> None:
    save_tensors(tmp_path / "model.safetensors", {"a.weight": ("BF16", [100, 64]), "norm.weight": ("BF16", [64])})
    (tmp_path / "tokenizer.json").write_text("{}")
    (tmp_path / "tokenizer_config.json").write_text('{"chat_template": "{{ messages }}"}')

    facts = model(tmp_path)

    assert (facts.architectures, facts.model_type, facts.dtype) == (["LlamaForCausalLM"], "llama", "bfloat16")
    assert (facts.num_hidden_layers, facts.num_attention_heads, facts.num_key_value_heads, facts.head_dim) == (
        4,
        8,
        2,
        8,
    )
    assert (facts.hidden_size, facts.vocab_size, facts.max_position_embeddings) == (64, 100, 2048)
    assert facts.parameters
    assert (facts.parameters.stored, facts.parameters.unpacked, facts.parameters.is_estimate) == (6464, 6464, False)
    assert facts.parameters.dtypes == {"BF16": 6464}
    assert facts.weights_bytes == (tmp_path / "model.safetensors").stat().st_size
    assert facts.total_bytes > facts.weights_bytes
    assert (facts.has_tokenizer, facts.has_chat_template, facts.quantization, facts.problems) == (True, True, None, [])


def test_a_template_file_of_its_own_counts(tmp_path: Path) -> None:
    assert not model(tmp_path).has_chat_template
    (tmp_path / "chat_template.jinja").write_text("x")
    assert model(tmp_path).has_chat_template


def test_shards_add_up_and_a_missing_one_is_named(tmp_path: Path) -> None:
    names = [f"model-0000{n}-of-00003.safetensors" for n in (1, 2, 3)]
    for name in names[:2]:
        save_tensors(tmp_path / name, {f"{name}.weight": ("F16", [10, 10])})
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {name: name for name in names}}))

    facts = model(tmp_path)

    assert facts.parameters
    assert facts.parameters.stored == 200
    assert [problem.code for problem in facts.problems] == ["weights_missing"]
    assert names[2] in facts.problems[0].message


@pytest.mark.parametrize(
    ("cut", "said"), [(1, "is cut off: "), (6450, "is cut off inside its header"), (10**6, "0 bytes")]
)
def test_a_cut_download_is_named_with_its_bytes(tmp_path: Path, cut: int, said: str) -> None:
    save_tensors(tmp_path / "model.safetensors", {"a.weight": ("BF16", [100, 32])}, cut)

    facts = model(tmp_path)

    assert [problem.code for problem in facts.problems] == ["weights_damaged"]
    assert said in facts.problems[0].message
    assert facts.parameters is None


@pytest.mark.parametrize("content", [b"x" * 100, struct.pack("<Q", 2) + b"[]", struct.pack("<Q", 9) + b'{"a": 3} '])
def test_other_files_with_that_name_are_no_weights(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "model.safetensors").write_bytes(content)

    assert [problem.code for problem in model(tmp_path).problems] == ["weights_damaged"]


def test_packed_weights_are_counted_as_the_weights_they_stand_for(tmp_path: Path) -> None:
    quantised = {**LLAMA, "quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 128}}
    save_tensors(
        tmp_path / "model.safetensors",
        {
            "q.qweight": ("I32", [64, 8]),  # 64 x 64 weights of four bits
            "q.qzeros": ("I32", [1, 8]),
            "q.scales": ("F16", [1, 64]),
            "embed.weight": ("F16", [100, 64]),
        },
    )

    facts = model(tmp_path, quantised)

    assert facts.quantization == Quantization("awq", 4, 128)
    assert facts.parameters
    assert (facts.parameters.unpacked, facts.parameters.is_estimate) == (64 * 64 + 6400, True)
    assert facts.parameters.stored == 512 + 8 + 64 + 6400


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ({"quant_method": "fp8"}, Quantization("fp8", 8)),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, Quantization("bitsandbytes", 4)),
        (
            {"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": {"num_bits": 4}}}},
            Quantization("compressed-tensors", 4),
        ),
    ],
)
def test_bits_are_found_where_each_quantiser_writes_them(
    tmp_path: Path, written: dict[str, Any], expected: Quantization
) -> None:
    assert model(tmp_path, {**LLAMA, "quantization_config": written}).quantization == expected


def test_a_multimodal_model_takes_its_figures_from_the_language_part(tmp_path: Path) -> None:
    text = {key: LLAMA[key] for key in ("num_hidden_layers", "num_attention_heads", "hidden_size")} | {"head_dim": 128}
    facts = model(tmp_path, {"architectures": ["XForConditionalGeneration"], "text_config": text, "dtype": "float16"})

    assert facts.is_multimodal
    assert (facts.num_hidden_layers, facts.num_key_value_heads, facts.head_dim, facts.dtype) == (4, 8, 128, "float16")


def test_a_sliding_window_that_is_switched_off_is_none(tmp_path: Path) -> None:
    assert model(tmp_path, {**LLAMA, "sliding_window": 4096}).sliding_window == 4096
    assert model(tmp_path, {**LLAMA, "sliding_window": 4096, "use_sliding_window": False}).sliding_window is None


def test_what_the_config_does_not_say_is_unknown(tmp_path: Path) -> None:
    facts = model(tmp_path, {"model_type": "odd", "num_hidden_layers": "many", "architectures": None})

    assert (facts.num_hidden_layers, facts.head_dim, facts.vocab_size, facts.architectures) == (None, None, None, [])
    assert [problem.code for problem in facts.problems] == ["no_weights"]


def test_other_weight_formats_are_counted_in_bytes(tmp_path: Path) -> None:
    (tmp_path / "pytorch_model.bin").write_bytes(bytes(10))
    (tmp_path / "training_args.bin").write_bytes(bytes(3))

    facts = model(tmp_path)

    assert (facts.weight_format, facts.weights_bytes, facts.parameters) == ("bin", 10, None)


def test_paths_that_hold_no_model_are_refused_each_for_its_reason(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken/config.json").write_text('{"a": ')
    (tmp_path / "list").mkdir()
    (tmp_path / "list/config.json").write_text("[]")
    for path, code in [
        ("nowhere", "no_such_path"),
        ("broken/config.json", "not_a_directory"),
        ("empty", "no_config"),
        ("broken", "bad_config"),
        ("list", "bad_config"),
    ]:
        with pytest.raises(VerbError) as refused:
            inspect(InspectModelRequest(str(tmp_path / path)))
        assert refused.value.code == code
        assert str(tmp_path / path.split("/")[0]) in refused.value.message
        assert refused.value.remedy


def test_a_directory_that_may_not_be_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0)
    is_root = os.geteuid() == 0
    try:
        if is_root:  # who may read everything
            os.seteuid(65534)
        with pytest.raises(VerbError) as refused:
            inspect(InspectModelRequest(str(tmp_path / "closed")))
    finally:
        if is_root:
            os.seteuid(0)
    assert refused.value.code == "not_allowed"
