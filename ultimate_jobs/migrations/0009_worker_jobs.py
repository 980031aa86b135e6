from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("ultimate_jobs", "0008_permissions"),
    ]

    operations = [
        migrations.AddField(
            model_name="worker",
            name="jobs",
            field=models.JSONField(
                db_default=models.Value([], output_field=models.JSONField()),
                help_text="The names of the jobs it knows.",
            ),
        ),
    ]
