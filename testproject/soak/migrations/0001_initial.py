"""The tables of the soak."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Batch",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("key", models.CharField(max_length=64, unique=True)),
            ],
        ),
        migrations.CreateModel(
            name="Effect",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("key", models.CharField(help_text="The key of the job.", max_length=64)),
                ("step", models.CharField(max_length=16)),
                (
                    "answered",
                    models.BooleanField(
                        default=False, help_text="Whether its event was published."
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("answered", False), ("step", "ask")),
                        fields=["id"],
                        name="soak_effect_open_idx",
                    )
                ],
            },
        ),
    ]
