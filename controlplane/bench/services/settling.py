"""Cancelling, annotating and removing runs."""

from django.db import transaction
from django.utils.translation import gettext as _

from controlplane.bench.models import Run
from controlplane.bench.services.states import move
from controlplane.core import dispatch, events
from controlplane.core.errors import Conflict


def cancel_run(run: Run, *, actor: str) -> bool:
    """End `run` early: a queued one at once, of a running one the load generator is asked to stop, and what it had
    done by then is counted. False when it is over, or that was asked for before."""
    with transaction.atomic():
        fresh = Run.objects.select_for_update().get(pk=run.pk)
        if fresh.state == Run.State.QUEUED:
            won = move(fresh, Run.State.CANCELLED, actor=actor, ok=0, failed=0, cancelled=fresh.planned)
        elif fresh.state == Run.State.RUNNING and not fresh.is_cancel_requested:
            Run.objects.filter(pk=run.pk).update(is_cancel_requested=True, step_due_at=None)
            events.record("run.cancel_requested", actor=actor, subject=fresh)
            dispatch.after_commit("bench.advance", run_id=run.pk)
            won = True
        else:
            won = False
    run.refresh_from_db()
    return won


def annotate_run(run: Run, *, note: str, actor: str) -> None:
    """Replace the note: what people call the run, and what they want to remember of it."""
    with transaction.atomic():
        Run.objects.filter(pk=run.pk).update(note=note.strip())
        run.note = note.strip()
        events.record("run.annotated", actor=actor, subject=run, sentence=run.note)


def remove_run(run: Run, *, actor: str) -> None:
    """Forget a run with its numbers. Raises Conflict while it is not over, and when a promotion rests on it."""
    with transaction.atomic():
        fresh = Run.objects.select_for_update().get(pk=run.pk)
        if not fresh.is_over:
            raise Conflict(
                _("%(run)s is %(state)s.") % {"run": _name(fresh), "state": fresh.get_state_display().lower()},
                remedy=_("Cancel it first."),
            )
        # The app of promotions lies above this one; its relation is all that is known of it here.
        promotions = getattr(fresh, "promotions", None)
        if promotions is not None and promotions.exists():
            raise Conflict(
                _("%(run)s is evidence of a promotion: %(promotion)s.")
                % {"run": _name(fresh), "promotion": promotions.order_by("-pk").first()},
                remedy=_("Evidence is kept as long as the promotion is."),
            )
        events.record("run.removed", actor=actor, subject=fresh, workload=fresh.workload.name)
        fresh.delete()


def _name(run: Run) -> str:
    return _("Run %(number)s") % {"number": run.pk}
