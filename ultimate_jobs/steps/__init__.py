"""Inside a run: steps that happen once, sleeps, waits, and what undoes them.

``runner`` is what a body's ``run.step`` and its kin end in: it asks ``core.replay`` what the stored
record means, calls the function when it is to run, and stores the outcome before it answers.
``suspension`` holds the control flow that takes a run off its thread; ``unwind`` undoes a run that
failed for good; ``events`` publishes what runs wait for.

Every write names the claim it belongs to. A process that dies between a step's effect and its
record runs the step again; ``once=True`` stops there instead, and ``run.atomic`` has no between:
its effect and its record are one commit.

Reading order: ``runner``, ``suspension``, ``unwind``, ``events``.
"""
