from __future__ import annotations

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("ultimate_jobs", "0007_overview"),
    ]

    operations = [
        migrations.AlterModelOptions(
            name="lease",
            options={"default_permissions": ("view",), "verbose_name": "lease"},
        ),
        migrations.AlterModelOptions(
            name="ratelimitbucket",
            options={"default_permissions": ("view",), "verbose_name": "rate limit bucket"},
        ),
        migrations.AlterModelOptions(
            name="schedulerleader",
            options={"default_permissions": ("view",), "verbose_name": "scheduler leader"},
        ),
        migrations.AlterModelOptions(
            name="taskstate",
            options={
                "default_permissions": ("view",),
                "permissions": (
                    ("fire_task", "Can fire a task"),
                    ("pause_task", "Can pause a task"),
                    ("resume_task", "Can resume a task"),
                ),
                "verbose_name": "task",
            },
        ),
        migrations.AlterModelOptions(
            name="counter",
            options={"default_permissions": ("view",), "verbose_name": "counter"},
        ),
        migrations.AlterModelOptions(
            name="event",
            options={"default_permissions": ("view",), "verbose_name": "event"},
        ),
        migrations.AlterModelOptions(
            name="job",
            options={
                "default_permissions": ("view",),
                "ordering": ["-created_at", "-id"],
                "permissions": (
                    ("view_payload", "Can see inputs, results and outputs, redacted"),
                    ("retry_job", "Can retry a job"),
                    ("cancel_job", "Can cancel a job"),
                    ("promote_job", "Can make a job due now"),
                    ("remove_job", "Can remove a job"),
                    ("resolve_step", "Can say how a step in doubt ended"),
                ),
                "verbose_name": "job",
            },
        ),
        migrations.AlterModelOptions(
            name="jobstep",
            options={"default_permissions": ("view",), "verbose_name": "step"},
        ),
        migrations.AlterModelOptions(
            name="outboxentry",
            options={
                "default_permissions": ("view",),
                "ordering": ["staged_at", "id"],
                "verbose_name": "outbox entry",
                "verbose_name_plural": "outbox",
            },
        ),
        migrations.AlterModelOptions(
            name="pause",
            options={
                "default_permissions": ("view",),
                "permissions": (
                    ("pause_queue", "Can pause a queue"),
                    ("resume_queue", "Can resume a queue"),
                ),
                "verbose_name": "queue",
                "verbose_name_plural": "queues",
            },
        ),
        migrations.AlterModelOptions(
            name="worker",
            options={"default_permissions": ("view",), "verbose_name": "worker"},
        ),
    ]
