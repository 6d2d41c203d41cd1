"""What people type and choose about runs."""

from django import forms
from django.utils.translation import gettext_lazy as _

from controlplane.bench.models import Workload
from controlplane.fleet.models import Instance, State

MAX_SEED = 2**63 - 1


class RunForm(forms.Form):
    """Start a run. Only ready instances can be chosen."""

    instance = forms.ModelChoiceField(
        label=_("Instance"),
        queryset=Instance.objects.none(),
        empty_label=None,
        help_text=_("It must be ready. Runs of the same instance wait for each other."),
    )
    workload = forms.ModelChoiceField(label=_("Workload"), queryset=Workload.objects.none(), empty_label=None)
    note = forms.CharField(
        label=_("Note"), max_length=1000, required=False, help_text=_("What you want to find out, for the list.")
    )
    seed = forms.IntegerField(
        label=_("Seed"),
        min_value=0,
        max_value=MAX_SEED,
        required=False,
        help_text=_("Left empty, the run gets one of its own. Give both arms of a comparison the same."),
    )

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        ready = Instance.objects.filter(state=State.READY, desired=Instance.Desired.RUNNING)
        self.fields["instance"].queryset = ready.only("name").order_by("name")  # type: ignore[attr-defined]
        self.fields["workload"].queryset = Workload.objects.order_by("-is_built_in", "name")  # type: ignore[attr-defined]
