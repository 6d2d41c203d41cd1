"""What differs between two configs is told by meaning and line by line."""

from typing import Any

from controlplane.configs.domain.difference import Change, Row, differences, side_by_side


def test_only_keys_that_differ_are_told_in_their_documented_order() -> None:
    a: dict[str, dict[str, Any]] = {
        "batching": {"max_num_seqs": 64, "enable_prefix_caching": True},
        "server": {"port": 1},
        "engine": {"b": 1, "a": 1},
    }
    b: dict[str, dict[str, Any]] = {
        "server": {"port": 2},
        "batching": {"enable_prefix_caching": True, "max_num_seqs": 128},
        "engine": {"c": [1]},
    }
    assert differences(a, b) == (
        Change("server", "port", 1, 2),
        Change("batching", "max_num_seqs", 64, 128),
        Change("engine", "a", 1, None),
        Change("engine", "b", 1, None),
        Change("engine", "c", None, [1]),
    )


def test_equal_configs_do_not_differ_but_true_is_not_one() -> None:
    assert differences({"engine": {"a": 1}}, {"engine": {"a": 1.0}}) == ()
    assert differences({"engine": {"a": True}}, {"engine": {"a": 1}}) == (Change("engine", "a", True, 1),)


def test_two_texts_stand_side_by_side() -> None:
    assert side_by_side("a\nb\nc\n", "a\nB\nb2\nc\nd\n") == (
        Row("same", 1, "a", 1, "a"),
        Row("changed", 2, "b", 2, "B"),
        Row("added", None, "", 3, "b2"),
        Row("same", 3, "c", 4, "c"),
        Row("added", None, "", 5, "d"),
    )
    assert side_by_side("a\nb", "b") == (Row("removed", 1, "a", None, ""), Row("same", 2, "b", 1, "b"))


def test_line_endings_are_no_difference() -> None:
    assert {row.kind for row in side_by_side("a\r\nb\r\n", "a\nb\n")} == {"same"}
