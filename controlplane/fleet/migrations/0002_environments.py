from django.db import migrations


def create(apps, schema_editor):
    environment = apps.get_model("fleet", "Environment")
    environment.objects.get_or_create(name="production", defaults={"rank": 20})
    environment.objects.get_or_create(name="staging", defaults={"rank": 10})


class Migration(migrations.Migration):
    dependencies = [("fleet", "0001_initial")]
    operations = [migrations.RunPython(create, migrations.RunPython.noop)]
