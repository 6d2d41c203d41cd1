"""The filter of the event list."""

from django import forms
from django.utils.translation import gettext_lazy as _

from controlplane.ops.queries import EventFilter


class EventFilterForm(forms.Form):
    q = forms.CharField(required=False, max_length=200, label=_("Text"))
    name = forms.CharField(required=False, max_length=80, label=_("Kind"))
    actor = forms.CharField(required=False, max_length=200, label=_("By"))
    subject_type = forms.CharField(required=False, max_length=40, label=_("About"))
    subject_id = forms.CharField(required=False, max_length=40)
    since = forms.DateTimeField(required=False, label=_("From"))
    until = forms.DateTimeField(required=False, label=_("Until"))

    def wanted(self) -> EventFilter:
        """What the address asks for; a field that cannot be read counts as empty, and says so in `errors`."""
        self.is_valid()
        known = {name: value for name, value in self.cleaned_data.items() if value not in {None, ""}}
        return EventFilter(**known)
