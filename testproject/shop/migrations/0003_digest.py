"""What was ordered on a day."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("shop", "0002_checkout_saga"),
    ]

    operations = [
        migrations.CreateModel(
            name="Digest",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("day", models.DateField(unique=True)),
                ("orders", models.IntegerField()),
                ("amount", models.DecimalField(decimal_places=2, max_digits=14)),
            ],
            options={
                "ordering": ["-day"],
            },
        ),
    ]
