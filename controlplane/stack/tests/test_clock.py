"""What beat's scheduler does differently from Celery's."""

from celery import Celery

from controlplane.stack.clock import Clock

PERIOD_S = 60.0
ROUNDING_S = 0.001


def test_it_asks_to_be_woken_when_the_next_tick_is_due_and_not_before() -> None:
    """Woken earlier it would ask again and again until it is: that was most of what beat cost."""
    app = Celery("clock", broker="memory://", set_as_current=False)
    app.conf.beat_schedule = {"observe": {"task": "fleet.observe", "schedule": PERIOD_S}}
    clock = Clock(app=app)
    clock.tick()  # fills the heap; what that takes is over when the next one measures
    delay_s = clock.tick()
    entry = clock.schedule["observe"]
    assert PERIOD_S >= delay_s >= entry.is_due()[1] - ROUNDING_S
