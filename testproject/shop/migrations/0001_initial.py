"""The tables of the shop."""

from __future__ import annotations

import django.db.models.functions.datetime
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="LedgerEntry",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("key", models.CharField(max_length=128, unique=True)),
                ("reference", models.CharField(db_index=True, max_length=64)),
                ("amount", models.DecimalField(decimal_places=2, max_digits=12)),
                ("job_id", models.UUIDField()),
                (
                    "attempt",
                    models.IntegerField(help_text="The attempt of the job that booked it."),
                ),
                (
                    "repeats",
                    models.IntegerField(
                        default=0,
                        help_text="How often a run that had no reason to exist asked for it again.",
                    ),
                ),
                (
                    "booked_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now()),
                ),
            ],
            options={
                "verbose_name_plural": "ledger entries",
                "ordering": ["-booked_at", "-id"],
            },
        ),
        migrations.CreateModel(
            name="Order",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("reference", models.CharField(max_length=64, unique=True)),
                ("amount", models.DecimalField(decimal_places=2, max_digits=12)),
                (
                    "state",
                    models.CharField(
                        choices=[("placed", "Placed"), ("paid", "Paid")],
                        default="placed",
                        max_length=16,
                    ),
                ),
                (
                    "created_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now()),
                ),
            ],
            options={
                "ordering": ["-created_at", "-id"],
            },
        ),
    ]
