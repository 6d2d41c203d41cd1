"""A config comes back as it came, and changes only where it is changed."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.configs.domain.document import InvalidEditError, content_digest, new_document, read

from .samples import OPERATOR_FILE, document

PLAIN = OPERATOR_FILE.read_bytes()


def test_the_operators_file_imports_without_a_problem() -> None:
    reading = read(PLAIN)
    assert reading.problems == ()
    assert reading.document is not None
    assert reading.document.toml.encode() == PLAIN
    assert reading.document.content["model"] == {
        "model_path": "/data/models/Qwen2.5-32B-Instruct",
        "tokenizer_path": "/data/models/Qwen2.5-32B-Instruct",
        "dtype": "auto",
        "quantization": "awq",
        "max_model_len": 8192,
        "gpu_memory_utilization": 0.9,
        "tensor_parallel_size": 2,
        "trust_remote_code": True,
    }


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"# only a comment",
        b"\xef\xbb\xbf[server]\r\nport = 8000 # c\r\n",
        b'\r\n\r\n[model]\r\n\tmodel_path="m"',
        b'server.port = 8000\n[engine]\nseed = 1\n[engine.speculative_config]\nmethod = "ngram"\n',
        b'[server]\nserved_model_name = [\n  "a", # one\n  "b",\n]\n',
        '[model]\nmodel_path = "/数据/模型"  # 注释\n'.encode(),
    ],
)
def test_an_unchanged_config_comes_back_byte_for_byte(raw: bytes) -> None:
    reading = read(raw)
    assert reading.problems == ()
    assert reading.document is not None
    assert reading.document.toml.encode() == raw
    assert reading.document.with_values({}).toml.encode() == raw
    assert reading.document.with_secret("x").toml.encode() == raw


def test_a_plain_key_becomes_its_reference_and_nothing_else_changes() -> None:
    found = read(PLAIN).document
    assert found is not None
    assert found.secret_text == "sk-example-not-a-real-key"
    stored = found.with_secret("prod-vllm")
    assert stored.toml.encode() == PLAIN.replace(b"sk-example-not-a-real-key", b"secret:prod-vllm")
    assert stored.content["server"]["api_key"] == "secret:prod-vllm"
    assert stored.secret_text is None
    assert stored.with_secret("other") == stored


def test_a_plain_key_shows_in_nothing_that_could_be_stored_or_printed() -> None:
    found = read(PLAIN).document
    assert found is not None
    assert found.content["server"]["api_key"] == "secret:?"
    assert "sk-example" not in repr(found) + repr(read(PLAIN)) + json.dumps(found.content)


def test_a_plain_key_is_also_replaced_in_comments() -> None:
    found = document(
        '# was sk-12345678\n[server]\napi_key = "sk-12345678" # sk-12345678!\nserved_model_name = "sk-12345678"\n'
    )
    assert found.with_secret("k").toml == (
        '# was secret:k\n[server]\napi_key = "secret:k" # secret:k!\nserved_model_name = "sk-12345678"\n'
    )


@pytest.mark.parametrize("text", ['server.api_key = "sk-1"\n', 'server = { api_key = "sk-1", port = 80 }\n'])
def test_a_plain_key_is_found_in_every_way_of_writing_a_table(text: str) -> None:
    assert document(text).with_secret("k").toml == text.replace("sk-1", "secret:k")


def test_null_and_none_in_quotes_mean_that_nothing_is_set() -> None:
    found = document(
        '[model]\nmodel_path = "m"\nquantization = "None"\ntokenizer_path = "null"\n[engine]\nrevision = "none"\n'
    )
    assert found.content == {"model": {"model_path": "m"}}
    assert found.digest == document('[model]\nmodel_path = "m"\n').digest


def test_none_stays_where_it_is_a_choice_of_its_own() -> None:
    assert document('[engine]\nconvert = "none"\n').content == {"engine": {"convert": "none"}}


def test_comments_order_and_notation_do_not_change_the_digest() -> None:
    one = document('# a\n[model]\nmodel_path = "m"\ngpu_memory_utilization = 1\n[engine]\nmax-loras = 2\nseed = 0x10\n')
    two = document("[engine]\nseed = 16\nmax_loras = 2\n[model]\ngpu_memory_utilization = 1.0\nmodel_path = 'm'\n")
    assert one.digest == two.digest
    assert one.digest != one.with_values({("engine", "seed"): 17}).digest


def test_one_parameter_changed_leaves_every_other_byte() -> None:
    changed = document(OPERATOR_FILE.read_text()).with_values({("batching", "max_num_seqs"): 64})
    assert changed.toml.encode() == PLAIN.replace(b"max_num_seqs = 128", b"max_num_seqs = 64")


def test_a_removed_key_takes_its_line_with_it() -> None:
    changed = document(OPERATOR_FILE.read_text()).with_values({("scheduler", "swap_space"): None})
    assert changed.toml.encode() == PLAIN.replace(b"swap_space = 8                # GiB\n", b"")


def test_removing_what_is_not_there_changes_nothing() -> None:
    found = document(OPERATOR_FILE.read_text())
    assert found.with_values({("engine", "seed"): None, ("model", "quantization"): "awq"}).toml == found.toml


def test_a_new_key_goes_to_the_end_of_its_section() -> None:
    found = document("[server]\r\nport = 1 # one\r\n\r\n# about the model\r\n[model]\r\n")
    changed = found.with_values({("server", "host"): "::1", ("model", "model_path"): "m"})
    assert (
        changed.toml
        == '[server]\r\nport = 1 # one\r\nhost = "::1"\r\n\r\n# about the model\r\n[model]\r\nmodel_path = "m"\r\n'
    )


def test_a_missing_section_is_added_at_the_end() -> None:
    changed = document("[server]\nport = 1").with_values(
        {("engine", "speculative_config"): {"method": "ngram", "n": [1]}}
    )
    assert changed.toml == '[server]\nport = 1\n\n[engine]\nspeculative_config = { method = "ngram", n = [1] }\n'
    assert changed.content["engine"] == {"speculative_config": {"method": "ngram", "n": [1]}}


def test_an_option_in_a_table_of_its_own_can_be_replaced_and_removed() -> None:
    found = document('[engine]\nseed = 1\n[engine.speculative-config]\nmethod = "ngram"\n[server]\nport = 1\n')
    assert found.with_values({("engine", "speculative_config"): None}).content == {
        "server": {"port": 1},
        "engine": {"seed": 1},
    }
    replaced = found.with_values({("engine", "speculative_config"): {"method": "eagle"}})
    assert replaced.content["engine"]["speculative_config"] == {"method": "eagle"}


def test_an_edit_that_makes_the_config_wrong_is_refused() -> None:
    with pytest.raises(InvalidEditError, match="between 1 and 65535") as refused:
        document("[server]\nport = 1\n").with_values({("server", "port"): 0})
    assert refused.value.problems[0].code == "out_of_range"


def test_a_new_document_reads_back_as_its_content() -> None:
    content: dict[str, dict[str, Any]] = {
        "server": {"port": 8000},
        "model": {"model_path": 'a "b"\n'},
        "engine": {"b": {"x": [True]}, "a": 1},
    }
    assert new_document(content).content == content
    assert new_document(content).digest == content_digest(content)


_NAMES = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), min_size=1, max_size=12).filter(
    lambda text: text.strip() and text.strip().lower() not in {"null", "none"}
)
_LINES = st.sampled_from(
    ["", "# a comment", '   # 注释 = "[x]"', "\t", "[batching]", "[observability] # end", "[scheduler]"]
)
_VALUES = st.one_of(st.integers(-9, 9), st.booleans(), _NAMES, st.lists(st.integers(0, 3), max_size=3))


@st.composite
def _texts(draw: st.DrawFn) -> str:
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    lines = ["[server]" + draw(st.sampled_from(["", " ", " # s"]))]
    lines += [f"port{draw(st.sampled_from(['=', ' = ', '  =']))}{draw(st.integers(1, 65535))}"]
    options = draw(st.dictionaries(st.from_regex(r"x[a-z]{3,6}q", fullmatch=True), _VALUES, max_size=4))
    lines += draw(st.lists(_LINES, max_size=6, unique=True))
    lines += ["[engine]"]
    for name, value in options.items():
        pad = draw(st.sampled_from(["", "  "]))
        lines += [
            f"{pad}{name} ={pad} {json.dumps(value, ensure_ascii=False)}{draw(st.sampled_from(['', ' # why', '  ']))}"
        ]
        lines += [draw(st.sampled_from(["", "# between"]))]
    return draw(st.sampled_from(["", "\ufeff"])) + newline.join(lines) + draw(st.sampled_from(["", newline]))


@given(_texts())
def test_any_config_comes_back_byte_for_byte(text: str) -> None:
    reading = read(text.encode())
    assert reading.problems == ()
    assert reading.document is not None
    assert reading.document.toml == text


@given(_texts(), st.integers(1, 65535), _VALUES)
def test_an_edit_and_its_reverse_give_the_same_bytes(text: str, port: int, value: Any) -> None:
    before = document(text)
    changed = before.with_values({("server", "port"): port, ("engine", "xaddedq"): value})
    assert changed.content["server"]["port"] == port
    assert changed.content["engine"]["xaddedq"] == value
    restored = changed.with_values({("server", "port"): before.content["server"]["port"], ("engine", "xaddedq"): None})
    assert restored.toml.rstrip("\r\n") == text.rstrip("\r\n")


@given(st.binary(max_size=200))
def test_no_bytes_make_reading_fail(raw: bytes) -> None:
    reading = read(raw)
    assert (reading.document is None) == any(problem.is_error for problem in reading.problems)


@given(st.text(st.sampled_from("[]{}=\"'#\\\n\r\t .,abc1-null"), max_size=60))
def test_no_text_makes_reading_fail_and_every_error_has_a_place(text: str) -> None:
    reading = read(text.encode())
    lines = text.count("\n") + 1
    for problem in reading.problems:
        assert problem.line is not None
        assert problem.column is not None
        assert 1 <= problem.line <= lines
        assert problem.column >= 1
