"""`manage.py reset_password USER`: for the administrator who lost theirs, with a shell on the control plane."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from controlplane.accounts import services
from controlplane.accounts.models import User

ACTOR = "system (manage.py reset_password)"


class Command(BaseCommand):
    help = "Gives a person a one-time password, printed once. Their open sessions end."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("username")
        parser.add_argument("--activate", action="store_true", help="also let in somebody who was deactivated")

    def handle(self, *args: Any, **options: Any) -> None:
        user = User.objects.filter(username=options["username"]).first()
        if user is None:
            names = ", ".join(User.objects.order_by("username").values_list("username", flat=True)[:20])
            raise CommandError(f"There is nobody called {options['username']}. There is: {names or 'nobody yet'}.")
        if not user.is_active and not options["activate"]:
            raise CommandError(f"{user.username} is deactivated. Add --activate to let them in again.")
        services.reactivate_person(user, actor=ACTOR)
        password = services.reset_password(User.objects.get(pk=user.pk), actor=ACTOR)
        self.stdout.write(f"One-time password of {user.username}: {password}")
        self.stdout.write("It is shown this once and opens only the page on which a new one is chosen.")
