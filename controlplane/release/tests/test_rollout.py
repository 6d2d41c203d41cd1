"""Promotions carried out on a pretended host, tick by tick."""

from datetime import timedelta

import pytest
from django.utils import timezone

from controlplane.core.errors import Conflict, Invalid
from controlplane.core.models import Event
from controlplane.fleet.models import LIVE_STATES, Instance, State
from controlplane.fleet.services import remove_instance, request_stop
from controlplane.fleet.tests.fake_world import fake_world
from controlplane.release import reconcile, services
from controlplane.release.models import Promotion
from controlplane.release.tests.worlds import ReleaseWorld

S = Promotion.State


def names_of_events() -> list[str]:
    return list(Event.objects.filter(name__startswith="promotion.").order_by("id").values_list("name", flat=True))


def test_the_first_version_of_an_environment_is_checked_launched_and_live(world: ReleaseWorld) -> None:
    promotion = world.live(1)
    assert world.serving() == [1]
    assert (promotion.strategy, promotion.reason, promotion.previous_version) == ("start_first", "It serves.", None)
    assert world.deployment().is_enabled
    assert names_of_events() == ["promotion.requested", "promotion.finished"]


def test_with_room_for_both_something_serves_at_every_moment(world: ReleaseWorld) -> None:
    before = world.live(1)
    promotion = world.promote(2)
    seen = [world.serving() for _tick in world.ticks(promotion)]
    assert promotion.state == S.LIVE
    assert all(seen)
    assert seen[-1] == [2]
    old = before.instance
    assert old is not None
    assert promotion.replaces == old
    old.refresh_from_db()
    assert (old.state, old.deployment) == (State.STOPPED, None)
    before.refresh_from_db()
    assert before.state == S.SUPERSEDED
    assert world.deployment().config_version == world.version(2)


def test_the_old_one_belongs_to_its_environment_until_it_is_gone(world: ReleaseWorld) -> None:
    old = world.live(1).instance
    assert old is not None
    promotion = world.promote(2)
    for _tick in world.ticks(promotion):
        old.refresh_from_db()
        assert old.deployment == world.deployment() or not promotion.is_under_way


def test_a_new_one_that_is_ready_for_a_moment_stops_nothing(world: ReleaseWorld) -> None:
    world.live(1)
    promotion = world.promote(2)
    while promotion.instance is None or promotion.instance.state != State.READY:
        world.tick(promotion)
    Instance.objects.filter(pk=promotion.instance.pk).update(state_since=timezone.now())
    reconcile.advance(promotion.pk, now=timezone.now())
    assert world.serving() == [1, 2]


def test_one_gpu_means_stop_first_on_that_gpu(world: ReleaseWorld) -> None:
    cards = world.with_gpus(1)
    old = world.live(1).instance
    assert old is not None
    promotion = world.promote(2)
    world.settle(promotion)
    assert (promotion.state, promotion.strategy) == (S.LIVE, "stop_first"), promotion.reason
    assert promotion.instance is not None
    assert promotion.instance.gpu_uuids == old.gpu_uuids == cards
    assert promotion.instance.port == old.port
    assert world.deployment().gpu_uuids == cards


def test_a_free_gpu_means_start_first_beside_the_old_one_on_another_port(world: ReleaseWorld) -> None:
    cards = world.with_gpus(2)
    old = world.live(1).instance
    promotion = world.live(2)
    assert old is not None
    assert promotion.instance is not None
    assert (promotion.strategy, old.gpu_uuids, promotion.instance.gpu_uuids) == ("start_first", cards[:1], cards[1:])
    assert promotion.instance.port != old.port


def test_gpus_of_others_are_left_alone_and_nothing_is_changed(world: ReleaseWorld) -> None:
    cards = world.with_gpus(2)
    assert world.measured_instance(9).gpu_uuids == cards[:1]
    world.live(1)
    promotion = world.promote(2, gpu_uuids=cards[:1])
    world.settle(promotion)
    assert promotion.state == S.FAILED
    assert promotion.reason.startswith("Nothing was changed.")
    assert "memory" in promotion.reason
    assert world.serving() == [1]


def test_a_new_one_that_does_not_come_up_leaves_the_old_one_alone(world: ReleaseWorld) -> None:
    world.live(1)
    world.fails(2)
    promotion = world.promote(2)
    seen = [world.serving() for _tick in world.ticks(promotion)]
    assert promotion.state == S.REVERTED
    assert all(serving == [1] for serving in seen)
    assert "The new one did not come up; qwen-v1-1 serves." in promotion.reason
    assert promotion.instance is not None
    assert (promotion.instance.state, promotion.instance.deployment) == (State.FAILED, None)
    assert world.deployment().config_version == world.version(1)


def test_the_tries_of_the_restart_policy_are_waited_for(world: ReleaseWorld) -> None:
    world.live(1)
    world.fails(2)
    promotion = world.promote(2)
    world.settle(promotion)
    assert promotion.instance is not None
    assert promotion.instance.attempts.count() == 3


def test_stopped_first_the_old_version_is_started_again(world: ReleaseWorld) -> None:
    world.with_gpus(1)
    old = world.live(1).instance
    world.fails(2)
    promotion = world.promote(2)
    world.settle(promotion)
    assert (promotion.state, promotion.is_reverting) == (S.REVERTED, True)
    assert world.serving() == [1]
    assert old is not None
    assert Instance.objects.get(deployment=world.deployment()) == old
    assert names_of_events()[-1] == "promotion.reverted"


def test_when_neither_comes_up_it_says_why_for_both(world: ReleaseWorld) -> None:
    world.with_gpus(1)
    world.live(1)
    world.fails(1, 2)
    promotion = world.promote(2)
    world.settle(promotion)
    assert promotion.state == S.FAILED
    assert promotion.reason.startswith("Neither the new nor the old version serves. qwen-v2-1: ")
    assert "qwen-v1-1: " in promotion.reason
    assert world.serving() == []


def test_a_first_version_that_does_not_come_up_fails(world: ReleaseWorld) -> None:
    world.fails(1)
    promotion = world.promote(1)
    world.settle(promotion)
    assert promotion.state == S.FAILED
    assert promotion.reason.startswith("It did not come up, and nothing served before. qwen-v1-1: ")
    assert not world.deployment().is_enabled


def test_a_measured_instance_is_taken_over_and_nothing_is_launched(world: ReleaseWorld) -> None:
    world.live(1)
    measured, starts = world.measured_instance(2), world.starts()
    promotion = world.promote(2, instance=measured)
    measured.refresh_from_db()
    assert measured.deployment == world.deployment()
    world.settle(promotion)
    assert (promotion.state, promotion.instance, world.starts()) == (S.LIVE, measured, starts)
    assert world.serving() == [2]


def test_two_environments_do_not_take_over_one_instance(world: ReleaseWorld) -> None:
    measured = world.measured_instance(2)
    world.promote(2, instance=measured)
    with pytest.raises(Conflict, match="cannot be taken over"):
        world.promote(2, instance=measured, environment="production")
    assert Promotion.objects.count() == 1


def test_giving_up_leaves_a_taken_over_instance_running(world: ReleaseWorld) -> None:
    world.live(1)
    measured = world.measured_instance(2)
    promotion = world.promote(2, instance=measured)
    services.abort(promotion, actor="olga")
    world.settle(promotion)
    measured.refresh_from_db()
    assert (measured.state, measured.desired, measured.deployment) == (State.READY, "running", None)
    assert (promotion.state, world.serving()) == (S.REVERTED, [1])


@pytest.mark.parametrize("cards", [0, 1], ids=["start first", "stop first"])
@pytest.mark.parametrize("ticks", range(9))
def test_giving_up_at_any_step_has_the_old_one_serving_or_is_refused(
    world: ReleaseWorld, cards: int, ticks: int
) -> None:
    if cards:
        world.with_gpus(cards)
    world.live(1)
    promotion = world.promote(2)
    for _ in range(ticks):
        world.tick(promotion)
    try:
        services.abort(promotion, actor="olga")
    except Conflict as refusal:
        assert "serves already" in refusal.sentence or "is over" in refusal.sentence  # noqa: PT017
        expected = (S.LIVE, [2])
    else:
        expected = (S.REVERTED, [1])
    world.settle(promotion)
    assert (promotion.state, world.serving()) == expected, promotion.reason
    ended = Instance.objects.exclude(state__in=LIVE_STATES)
    assert not ended.exclude(deployment=None).exists()


def test_a_host_that_is_silent_is_waited_for(world: ReleaseWorld) -> None:
    world.live(1)
    promotion = world.promote(2)
    world.fleet.machine.go_offline()
    for _ in range(4):
        world.tick(promotion)
    assert promotion.state == S.PENDING
    assert "it is asked again" in promotion.reason
    world.fleet.machine.is_online = True
    reconcile.advance(promotion.pk, now=timezone.now() + timedelta(seconds=reconcile.ASK_AGAIN_S))
    world.settle(promotion)
    assert (promotion.state, world.serving()) == (S.LIVE, [2])


def test_moving_away_from_a_dead_machine_works_while_it_is_dead(world: ReleaseWorld) -> None:
    old = world.live(1).instance
    assert old is not None
    other = fake_world()
    world.fleet.machine.go_offline()
    promotion = world.promote(2, engine=other.engine)
    world.elsewhere.append(other)
    world.settle(promotion)
    assert promotion.state == S.LIVE, promotion.reason
    old.refresh_from_db()
    assert (old.desired, old.is_host_silent, old.deployment) == ("stopped", True, None)
    assert world.deployment().host == other.host


def test_maintenance_of_the_host_changes_nothing_and_says_so(world: ReleaseWorld) -> None:
    world.live(1)
    promotion = world.promote(2)
    world.fleet.host.is_in_maintenance = True
    world.fleet.host.save()
    world.settle(promotion)
    assert promotion.state == S.FAILED
    assert promotion.reason.startswith("Nothing was changed.")
    assert "maintenance" in promotion.reason
    assert world.serving() == [1]


def test_a_new_one_that_was_deleted_is_not_launched_again(world: ReleaseWorld) -> None:
    world.live(1)
    promotion = world.promote(2)
    while promotion.instance is None:
        world.tick(promotion)
    Instance.objects.filter(pk=promotion.instance.pk).update(state=State.FAILED)
    remove_instance(promotion.instance, actor="x")
    promotion.refresh_from_db()
    world.settle(promotion)
    assert promotion.state == S.REVERTED
    assert Instance.objects.filter(config_version=world.version(2)).count() == 0


def test_an_old_one_that_a_person_stopped_meanwhile_does_not_end_it(world: ReleaseWorld) -> None:
    old = world.live(1).instance
    assert old is not None
    promotion = world.promote(2)
    world.tick(promotion)
    request_stop(old, actor="x")
    world.settle(promotion)
    assert (promotion.state, world.serving()) == (S.LIVE, [2])


def test_a_move_asked_for_twice_is_made_once(world: ReleaseWorld) -> None:
    promotion = world.promote(1)
    for _ in range(3):
        reconcile.advance(promotion.pk)
        reconcile.advance(promotion.pk)
        world.tick(promotion)
    assert Instance.objects.count() == 1


def test_a_worker_that_dies_in_a_move_has_done_nothing(world: ReleaseWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """The launch is asked for, the promotion does not know of it yet: the next worker asks for one, not a second."""
    promotion = world.promote(1)
    world.tick(promotion)
    save = Promotion.save

    def dies(self: Promotion, *args: object, update_fields: list[str], **more: object) -> None:
        if "instance" in update_fields:
            raise SystemExit
        save(self, update_fields=update_fields)

    monkeypatch.setattr(Promotion, "save", dies)
    with pytest.raises(SystemExit):
        reconcile.advance(promotion.pk)
    assert not Instance.objects.exists()
    monkeypatch.undo()
    world.settle(promotion)
    assert Instance.objects.count() == 1


def test_going_back_brings_the_version_before_with_its_evidence(world: ReleaseWorld) -> None:
    run = world.run(world.version(1))
    world.live(1, runs=[run])
    world.live(2)
    back = services.roll_back(world.deployment(), actor="olga")
    assert (list(back.runs.all()), back.previous_version) == ([run], world.version(2))
    world.settle(back)
    assert (back.state, back.is_rollback, world.serving()) == (S.LIVE, True, [1])
    assert names_of_events()[-2:] == ["promotion.rolled_back", "promotion.finished"]


def test_going_back_where_nothing_serves_starts_the_last_that_did(world: ReleaseWorld) -> None:
    world.live(1)
    world.live(2)
    services.stop_serving(world.deployment(), actor="olga")
    back = services.roll_back(world.deployment(), actor="olga")
    assert back.config_version == world.version(2)


def test_there_is_no_way_back_from_a_first_version_that_serves(world: ReleaseWorld) -> None:
    world.live(1)
    with pytest.raises(Conflict, match="Nothing served as qwen in staging before"):
        services.roll_back(world.deployment(), actor="olga")


def test_a_version_that_never_served_is_nothing_to_go_back_to(world: ReleaseWorld) -> None:
    world.fails(1)
    world.settle(world.promote(1))
    world.fails()
    world.live(2)
    with pytest.raises(Conflict, match="Nothing served"):
        services.roll_back(world.deployment(), actor="olga")


def test_one_promotion_at_a_time_for_each_deployment(world: ReleaseWorld) -> None:
    world.promote(1)
    with pytest.raises(Conflict, match="under way"):
        world.promote(2)
    with pytest.raises(Conflict, match="under way"):
        services.stop_serving(world.deployment(), actor="olga")
    world.promote(2, environment="production")


def test_what_serves_already_is_not_promoted_again(world: ReleaseWorld) -> None:
    world.live(1)
    with pytest.raises(Conflict, match="serves staging already"):
        world.promote(1)


def test_neither_evidence_nor_reason_is_refused_and_so_are_runs_of_something_else(world: ReleaseWorld) -> None:
    with pytest.raises(Invalid, match="neither evidence nor a reason"):
        world.promote(1, why="  ")
    with pytest.raises(Invalid, match="measured another config"):
        world.promote(1, runs=[world.run(world.version(2))])
    with pytest.raises(Invalid, match="proves nothing"):
        world.promote(1, runs=[world.run(world.version(1), state="invalid")])
    assert not Promotion.objects.exists()
    assert world.promote(1, runs=[world.run(world.version(1))], why="").why == ""


def test_taken_out_of_service_nothing_serves_and_nothing_starts_it_again(world: ReleaseWorld) -> None:
    promotion = world.live(1)
    services.stop_serving(world.deployment(), why="Too dear.", actor="olga")
    promotion.refresh_from_db()
    assert (promotion.state, promotion.reason, world.deployment().is_enabled) == (S.SUPERSEDED, "Too dear.", False)
    assert promotion.instance is not None
    world.fleet.step(promotion.instance)
    assert (promotion.instance.state, world.serving()) == (State.STOPPED, [])
    with pytest.raises(Conflict, match="out of service already"):
        services.stop_serving(world.deployment(), actor="olga")
    world.live(1)
