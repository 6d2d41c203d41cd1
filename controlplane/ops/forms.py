"""The filter of the event list."""

from datetime import datetime

from django import forms
from django.utils.translation import gettext_lazy as _

from controlplane.accounts.domain.moments import in_utc
from controlplane.ops.queries import EventFilter


class EventFilterForm(forms.Form):
    q = forms.CharField(required=False, max_length=200, label=_("Text"))
    name = forms.CharField(required=False, max_length=80, label=_("Kind"))
    actor = forms.CharField(required=False, max_length=200, label=_("By"))
    subject_type = forms.CharField(required=False, max_length=40, label=_("About"))
    subject_id = forms.CharField(required=False, max_length=40)
    since = forms.DateTimeField(required=False, label=_("From"))
    until = forms.DateTimeField(required=False, label=_("Until"))

    def clean_since(self) -> datetime | None:
        return self._moment("since")

    def clean_until(self) -> datetime | None:
        return self._moment("until")

    def wanted(self) -> EventFilter:
        """What the address asks for; a field that cannot be read counts as empty, and says so in `errors`."""
        self.is_valid()
        known = {name: value for name, value in self.cleaned_data.items() if value not in {None, ""}}
        return EventFilter(**known)

    def _moment(self, name: str) -> datetime | None:
        given: datetime | None = self.cleaned_data[name]
        try:
            return given and in_utc(given)
        except ValueError:
            raise forms.ValidationError(_("Enter a moment between the years 1 and 9999.")) from None
