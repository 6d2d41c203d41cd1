"""What the overview says for which figures."""

from typing import Any

from controlplane.web.domain.overview import (
    DeploymentRow,
    FirstSteps,
    Lane,
    Square,
    Step,
    figure,
    headline,
    needs_look,
    total,
)


def row(name: str = "chat", *, ready: int = 1, environment: str = "production", **more: Any) -> DeploymentRow:
    given = {"is_enabled": True, "config_url": "", "version": 1, **more}
    return DeploymentRow(pk=1, name=name, environment=environment, ready=ready, **given)


def test_with_nothing_promoted_it_says_so() -> None:
    assert headline([Lane("production", ""), Lane("staging", "")]).kind == "nothing"
    assert headline([Lane("production", "", [row(is_enabled=False)])]).kind == "nothing"


def test_it_counts_the_most_important_environment_that_has_something() -> None:
    lanes = [
        Lane("production", "", [row(output_tokens_per_s=100.0), row("code", output_tokens_per_s=12.0)]),
        Lane("staging", "", [row("chat", environment="staging")]),
    ]
    said = headline(lanes)
    assert (said.kind, said.environment, said.serving, said.wanted) == ("serving", "production", 2, 2)
    assert said.output_tokens_per_s == 112.0


def test_one_that_does_not_serve_is_named_and_the_rest_counted() -> None:
    lanes = [
        Lane("production", "", [row(), row("code", ready=0)]),
        Lane("staging", "", [row("chat", ready=0, environment="staging")]),
    ]
    said = headline(lanes)
    assert said.kind == "trouble"
    assert said.broken is not None
    assert (said.broken.name, said.broken_count, said.serving, said.wanted) == ("code", 2, 1, 2)


def test_a_deployment_on_a_silent_host_does_not_count_as_serving() -> None:
    silent = row(is_host_silent=True)
    assert not silent.is_serving
    assert silent.state == "unreachable"


def test_the_state_of_a_row_is_the_one_that_matters_most() -> None:
    def squares(*states: str) -> list[Square]:
        return [Square(n, f"chat-{n}", state, "") for n, state in enumerate(states)]

    assert row(ready=1, squares=squares("ready", "failed")).state == "ready"
    assert row(ready=0, squares=squares("starting", "failed")).state == "failed"
    assert row(ready=0, squares=squares("pending", "starting")).state == "starting"
    assert row(ready=0).state == "stopped"
    assert row(is_rolling=True, ready=0).state == "rolling"
    assert row(is_enabled=False, ready=1).state == "stopped"


def test_a_sum_of_nothing_measured_is_not_measured() -> None:
    assert total([None, None]) is None
    assert total([None, 2.0]) == 2.0
    assert total([0.0]) == 0.0


def test_only_numbers_are_figures() -> None:
    assert figure({"running": 3}, "running") == 3.0
    assert figure({"running": "3"}, "running") is None
    assert figure({"running": True}, "running") is None
    assert figure({}, "running") is None


def test_the_first_step_that_is_open_is_the_next() -> None:
    steps = FirstSteps([Step("host", True), Step("model", False), Step("config", True)])
    assert not steps.is_complete
    assert steps.next is not None
    assert steps.next.key == "model"


def test_where_to_look_is_the_newest_failure_then_the_newest_instance_then_the_config() -> None:
    squares = [Square(1, "a", "failed", "/1"), Square(2, "b", "failed", "/2"), Square(3, "c", "starting", "/3")]
    assert row(ready=0, squares=squares).cause_url == "/2"
    assert row(ready=0, squares=squares[2:]).cause_url == "/3"
    assert row(ready=0, config_url="/config").cause_url == "/config"


def test_what_does_not_serve_stands_first_and_the_rest_keeps_its_order() -> None:
    rows = [row("a"), row("b", is_enabled=False, ready=0), row("c", ready=0), row("d")]
    assert [one.name for one in sorted(rows, key=needs_look)] == ["c", "a", "b", "d"]
