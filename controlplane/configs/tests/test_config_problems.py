"""Every problem of a file is told in one pass, at its place, with what to write instead."""

import pytest

from controlplane.configs.domain.document import MAX_BYTES, read
from controlplane.configs.domain.problem import Problem


def problems(text: str) -> tuple[Problem, ...]:
    return read(text.encode()).problems


def only(text: str) -> Problem:
    found = problems(text)
    assert len(found) == 1, found
    return found[0]


def test_all_problems_come_in_one_pass_in_the_order_of_the_file() -> None:
    text = "\n".join(
        [
            "prot = 3",
            "[server]",
            'port = "8000"',
            "port = 80",
            'hots = "x"',
            "[modle]",
            "[model]",
            "quantization = null   # none wanted",
            "dtype = auto",
            "gpu_memory_utilization = 1.5",
            "max_num_seqs = 5",
            "what is this",
            "[engine]",
            "max-num-seqs = 4",
            "config = 'x.yaml'",
            "[batching]",
            "max_num_seqs = 4",
        ]
    )
    assert [(p.code, p.line, p.column) for p in problems(text)] == [
        ("unknown_section", 1, 1),
        ("wrong_type", 3, 8),
        ("duplicate_key", 4, 1),
        ("unknown_key", 5, 1),
        ("unknown_section", 6, 1),
        ("null", 8, 16),
        ("syntax", 9, 9),
        ("out_of_range", 10, 26),
        ("misplaced_key", 11, 1),
        ("syntax", 12, 1),
        ("given_twice", 14, 1),
        ("managed", 15, 1),
    ]
    assert read(text.encode()).document is None


def test_a_bare_null_is_told_what_to_write_instead() -> None:
    assert only('[model]\nmodel_path = "m"\nquantization = null\n') == Problem(
        code="null",
        line=3,
        column=16,
        key="[model] quantization",
        message="TOML has no null.",
        remedy='Delete the line, or write quantization = "none".',
        replacement='quantization = "none"',
    )


def test_a_null_inside_a_table_is_told_too() -> None:
    found = only("[engine]\nspeculative_config = { a = 1, b = null }\n")
    assert (found.code, found.line, found.remedy) == ("null", 2, "Leave the entry out.")


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        ("prt = 8000", "unknown_key", "There is no such key. Did you mean port?"),
        ("max_num_seqs = 1", "misplaced_key", "Write it as max_num_seqs in [batching]."),
        ("tokenizer = 'x'", "misplaced_key", "Write it as tokenizer_path in [model]."),
        ("enforce_eager = true", "misplaced_key", "Put it below [engine]."),
        ("port = 70000", "out_of_range", "The value must be between 1 and 65535."),
        ("port = true", "wrong_type", "A whole number is wanted, not true or false."),
        ("port = 8000.0", "wrong_type", "Write port = 8000."),
        ("host = ''", "out_of_range", "The value must be not empty."),
        ("served_model_name = []", "wrong_type", "Text in quotes, or a list of such is wanted, not a list."),
        ("host = 2020-01-01", "wrong_type", "Text in quotes is wanted, not a date or time."),
        ("host = True", "syntax", "TOML has no True. Write host = true."),
        ("host = example.com", "syntax", 'Text needs quotes. Write host = "example.com".'),
        ('host = "abc', "syntax", "Check quotes, brackets and commas."),
        ('api_key = ""', "out_of_range", "The key is empty."),
        ('api_key = "a\\nb"', "out_of_range", "which no client can send"),
        ('api_key = "ключ"', "out_of_range", "which no client can send"),
        (f"port = {'9' * 5000}", "syntax", "the number is too long"),
        ("api_key = 'secret:a b'", "bad_reference", 'Write it like "secret:prod-vllm".'),
    ],
)
def test_a_wrong_line_below_server_is_explained(line: str, code: str, said: str) -> None:
    found = only(f"[server]\n{line}\n")
    assert found.code == code
    assert said in str(found)
    assert found.line == 2


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        ("max_model_len = 0", "out_of_range", "The value must be at least 1 tokens."),
        ('max_model_len = "8x"', "wrong_type", 'text like "8k"'),
        ("gpu_memory_utilization = 90", "out_of_range", "above 0 and at most 1"),
        ("gpu_memory_utilization = nan", "wrong_type", "A number is wanted, not nan or inf."),
        ("trust_remote_code = 'yes'", "wrong_type", "True or false is wanted, not text."),
        ("tensor_parallel_size = 0", "out_of_range", "at least 1 GPUs"),
    ],
)
def test_a_wrong_line_below_model_is_explained(line: str, code: str, said: str) -> None:
    found = only(f"[model]\n{line}\n")
    assert found.code == code
    assert said in str(found)


@pytest.mark.parametrize("line", ["max_model_len = -1", 'max_model_len = "auto"', 'max_model_len = "25.6k"'])
def test_a_length_may_be_written_as_vllm_takes_it(line: str) -> None:
    assert problems(f"[model]\n{line}\n") == ()


def test_a_wrong_policy_names_the_right_ones() -> None:
    found = only('[scheduler]\nscheduler_policy = "fcf"\n')
    assert (found.code, found.replacement) == ("wrong_choice", 'scheduler_policy = "fcfs"')


@pytest.mark.parametrize(
    "name",
    ["host", "port", "api_key", "api-key", "served_model_name", "model", "model_tag", "config", "uds", "headless"],
)
def test_what_the_control_plane_sets_is_refused_below_engine(name: str) -> None:
    found = only(f'[engine]\n{name} = "x"\n')
    assert found.code == "managed"
    assert found.message == "The control plane sets this itself."


def test_an_alias_of_a_fixed_key_is_the_same_setting() -> None:
    found = only("[model]\ngpu_memory_utilization = 0.9\n[engine]\ndevice-memory-utilization = 0.8\n")
    assert (found.code, found.line) == ("given_twice", 4)
    assert found.message == "The same setting is given as [model] gpu_memory_utilization, on line 2."


def test_one_option_in_two_spellings_is_a_duplicate() -> None:
    found = only("[engine]\nmax-loras = 1\nmax_loras = 2\n")
    assert (found.code, found.line) == ("duplicate_key", 3)


def test_a_repeated_section_is_told_with_the_first_line() -> None:
    found = only("[server]\nport = 1\n[server]\nhost = 'x'\n")
    assert (found.code, found.line, found.message) == (
        "duplicate_section",
        3,
        "The section is there already, on line 1.",
    )


def test_a_credential_that_would_show_in_the_command_line_is_refused() -> None:
    found = only('[engine]\nhf_token = "hf_abcdefgh"\n')
    assert found.code == "secret_in_clear"
    assert "hf_abc" not in str(found)
    assert problems("[engine]\nhf_token = true\n") == ()


@pytest.mark.parametrize("line", ["api_key = sk-topsecret", 'api_key = "sk-topsecret', "api_key = ['sk-topsecret']"])
def test_no_message_repeats_a_key(line: str) -> None:
    assert "topsecret" not in repr(problems(f"[server]\n{line}\n"))


def test_white_space_around_a_key_is_only_warned_about() -> None:
    reading = read(b'[server]\napi_key = "sk-1 "\n')
    assert [(p.code, p.severity) for p in reading.problems] == [("stray_space", "warning")]
    assert reading.document is not None


def test_a_byte_that_is_not_utf8_is_told_with_its_line_and_the_rest_is_still_read() -> None:
    found = read(b"[server]\n# na\xc3\xafve caf\xe9\nprot = 1\n").problems
    assert [(p.code, p.line, p.column) for p in found] == [("not_utf8", 2, 12), ("unknown_key", 3, 1)]


def test_utf16_is_named() -> None:
    found = read("[server]\nport = 1\n".encode("utf-16")).problems
    assert [p.message for p in found] == ["The file is UTF-16, not UTF-8."]


def test_an_open_bracket_does_not_hide_later_problems() -> None:
    found = problems('[server]\nserved_model_name = ["a"\nprot = 1\n')
    assert [(p.code, p.line) for p in found] == [("syntax", 2), ("unknown_key", 3)]


def test_a_huge_file_is_refused_before_it_is_read() -> None:
    assert [p.code for p in read(b"#" * (MAX_BYTES + 1)).problems] == ["too_large"]


def test_deep_nesting_and_endless_numbers_are_problems_like_others() -> None:
    assert only(f"[engine]\na = {'[' * 9000}{']' * 9000}\n").code == "syntax"
    assert only(f"[server]\nport = {'9' * 5000}\n").line == 2
