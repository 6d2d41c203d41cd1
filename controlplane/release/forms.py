"""What people choose when they promote. The rules are the services'; the form carries the input there and back."""

from collections.abc import Sequence
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from controlplane.configs.models import ConfigVersion
from controlplane.fleet.models import Environment, Instance
from controlplane.inventory.models import Engine
from controlplane.release import queries

MAX_WHY = 4000


class EnvironmentField(forms.ModelChoiceField):  # type: ignore[type-arg]  # not subscriptable at run time
    """By name. Postgres keeps every character but NUL, so no environment has one."""

    def to_python(self, value: Any) -> Any:
        if isinstance(value, str) and "\x00" in value:
            raise forms.ValidationError(self.error_messages["invalid_choice"], code="invalid_choice")
        return super().to_python(value)


class PromoteForm(forms.Form):
    """Version, environment, place, evidence, reason. An address fills it in part; only a POST has to be complete.

    `gpu_uuids`: the GPUs of the chosen engine's host.
    """

    version = forms.ModelChoiceField(
        ConfigVersion.objects.select_related("config"),
        label=_("Version"),
        error_messages={"required": _("Choose a version."), "invalid_choice": _("This version is not there any more.")},
    )
    environment = EnvironmentField(
        Environment.objects.order_by("-rank", "name"),
        label=_("Environment"),
        to_field_name="name",
        error_messages={"required": _("Choose an environment."), "invalid_choice": _("There is no such environment.")},
    )
    instance = forms.ModelChoiceField(Instance.objects.defer("sealed_key"), label=_("Instance"), required=False)
    engine = forms.ModelChoiceField(
        Engine.objects.select_related("host").filter(missing_since=None).defer("host__facts"),
        label=_("Engine"),
        required=False,
    )
    gpu = forms.MultipleChoiceField(label=_("GPUs"), required=False)
    runs = forms.ModelMultipleChoiceField(queries.measured_runs(), label=_("Evidence"), required=False)
    why = forms.CharField(
        label=_("Why"),
        max_length=MAX_WHY,
        required=False,
        widget=forms.Textarea({"rows": 3}),
        help_text=_("For whoever asks later. Needed when there is no evidence."),
    )

    def __init__(self, data: Any = None, *, gpu_uuids: Sequence[str] = ()) -> None:
        super().__init__(data)
        self.fields["gpu"] = forms.MultipleChoiceField(
            label=_("GPUs"), required=False, choices=[(uuid, uuid) for uuid in gpu_uuids]
        )

    def clean(self) -> dict[str, Any]:
        """A place: an instance that runs already, or an engine to launch on."""
        data: dict[str, Any] = super().clean() or {}
        instance = data.get("instance")
        if instance is not None:
            data["engine"] = Engine.objects.select_related("host").get(pk=instance.engine_id)
        elif data.get("engine") is None and not self.errors.keys() & {"engine", "instance"}:
            self.add_error("engine", _("Choose where to launch it, or an instance that runs already."))
        return data
