"""Options as a build declares them, made readable."""

from typing import Any

import pytest

from controlplane.inventory.domain.options import kind_of, option


@pytest.mark.parametrize(
    ("entry", "kind"),
    [
        ({"is_bool_pair": True}, "bool"),
        ({"action": "_StoreTrueAction"}, "bool"),
        ({"parser_type": "int"}, "int"),
        ({"parser_type": "human_readable_int_or_auto", "annotation": "<class 'int'>"}, "int"),
        ({"parser_type": "_optional_type", "annotation": "int | None"}, "int"),
        ({"parser_type": "_optional_type", "annotation": None}, "str"),
        ({"parser_type": None, "annotation": "<class 'str'>"}, "str"),
        ({"parser_type": "_parse_type", "annotation": "dict[str, Any]"}, "json"),
        ({"parser_type": "parse_dataclass", "annotation": "<class 'vllm.config.parallel.EPLBConfig'>"}, "json"),
        ({"parser_type": "<lambda>", "annotation": "list[int | str] | None"}, "int"),
        ({"annotation": "Optional[Literal['INFO']]"}, "str"),
        ({}, "str"),
    ],
)
def test_the_kind_is_the_parsers_or_the_annotations(entry: dict[str, Any], kind: str) -> None:
    assert kind_of(entry) == kind


@pytest.mark.parametrize(
    ("default", "text"),
    [(None, ""), ("==SUPPRESS==", ""), (True, "true"), (0.92, "0.92"), ("auto", "auto"), ({"a": None}, '{"a": null}')],
)
def test_a_default_is_written_as_in_a_config(default: Any, text: str) -> None:
    assert option({"default": default}).default_text == text


@pytest.mark.parametrize("wanted", ["", "--max-model-len", "max_model", "MAX", "longest", "4096"])
def test_name_choices_and_help_are_searched(wanted: str) -> None:
    entry = {"dest": "max_model_len", "flags": ["--max-model-len"], "choices": [4096], "help": "The longest context."}
    assert option(entry).mentions(wanted)
    assert not option(entry).mentions("dtype")
