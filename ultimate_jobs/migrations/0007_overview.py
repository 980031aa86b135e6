from __future__ import annotations

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("ultimate_jobs", "0006_operate")]

    operations = [
        migrations.CreateModel(
            name="Overview",
            fields=[],
            options={
                "verbose_name": "overview",
                "verbose_name_plural": "overview",
                "proxy": True,
                "default_permissions": (),
                "indexes": [],
                "constraints": [],
            },
            bases=("ultimate_jobs.job",),
        ),
    ]
