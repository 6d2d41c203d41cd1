"""What people choose and type about launches. The rules are the services'; forms carry the input there and back."""

from collections.abc import Sequence
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from controlplane.configs.models import ConfigVersion
from controlplane.fleet.services.smoking import DEFAULT_PROMPT
from controlplane.inventory.models import Engine

CHECK = "check"
"""The button that only looks; any other one launches."""
MAX_TEXT = 4000
WITH_LAUNCH = {"form": "launch-form"}
"""The choices stand outside of the form that sends them, so that asking for their consequences carries no token."""


class GpusField(forms.Field):
    """UUIDs of ticked GPUs; [] when none is. Which exist is the service's question."""

    widget = forms.SelectMultiple

    def to_python(self, value: Any) -> list[str]:
        return [str(uuid) for uuid in value or []]


class LaunchForm(forms.Form):
    """What to launch where."""

    version = forms.ModelChoiceField(
        ConfigVersion.objects.select_related("config"),
        label=_("Config version"),
        error_messages={
            "required": _("Choose what to launch."),
            "invalid_choice": _("This version is not there any more. Choose another."),
        },
    )
    engine = forms.ModelChoiceField(
        Engine.objects.select_related("host", "option_list").defer("host__facts", "option_list__args"),
        label=_("Engine"),
        error_messages={
            "required": _("Choose where to launch it."),
            "invalid_choice": _("This engine is not there any more. Choose another."),
        },
    )
    gpu = GpusField(label=_("GPUs"), required=False)
    port = forms.IntegerField(
        label=_("Port"),
        required=False,
        min_value=1,
        max_value=65535,
        widget=forms.NumberInput(attrs={**WITH_LAUNCH, "placeholder": _("chosen for you")}),
        help_text=_("Left empty: the config's own, or the next free one."),
    )
    override_reason = forms.CharField(
        label=_("Why launch although a check failed"),
        required=False,
        max_length=MAX_TEXT,
        widget=forms.Textarea(attrs={**WITH_LAUNCH, "rows": 2}),
        help_text=_("It is kept with the instance and in the events. The host itself may still refuse."),
    )

    @property
    def gpu_uuids(self) -> Sequence[str] | None:
        """None: as many free ones as the config needs."""
        return self.cleaned_data["gpu"] or None


class SmokeForm(forms.Form):
    """One question for a ready instance."""

    prompt = forms.CharField(
        label=_("Prompt"),
        max_length=MAX_TEXT,
        initial=DEFAULT_PROMPT,
        widget=forms.Textarea(attrs={"rows": 2}),
        error_messages={"required": _("Write what it shall be asked.")},
    )


class ReasonForm(forms.Form):
    """Why something is done all the same."""

    override_reason = forms.CharField(required=False, max_length=MAX_TEXT)
