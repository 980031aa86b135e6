"""What a checkout reserves, and what it asks of the shop's partners."""

from __future__ import annotations

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("shop", "0001_initial"),
    ]

    operations = [
        migrations.AddField(
            model_name="order",
            name="address",
            field=models.CharField(default="1 Main Street", max_length=200),
        ),
        migrations.AddField(
            model_name="order",
            name="card",
            field=models.CharField(default="card", max_length=32),
        ),
        migrations.AddField(
            model_name="order",
            name="nudges",
            field=models.IntegerField(default=0, help_text="How often the customer was reminded."),
        ),
        migrations.AddField(
            model_name="order",
            name="sku",
            field=models.CharField(default="mug", max_length=32),
        ),
        migrations.AlterField(
            model_name="order",
            name="state",
            field=models.CharField(
                choices=[
                    ("placed", "Placed"),
                    ("paid", "Paid"),
                    ("delivered", "Delivered"),
                    ("cancelled", "Cancelled"),
                ],
                default="placed",
                max_length=16,
            ),
        ),
        migrations.CreateModel(
            name="Stock",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("sku", models.CharField(max_length=32, unique=True)),
                ("received", models.IntegerField(default=1000)),
                ("left", models.IntegerField(default=1000)),
            ],
            options={
                "verbose_name_plural": "stock",
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("left__gte", 0)), name="shop_stock_not_negative"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Reservation",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "order",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE, to="shop.order"
                    ),
                ),
                (
                    "shelf",
                    models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, to="shop.stock"),
                ),
            ],
        ),
    ]
