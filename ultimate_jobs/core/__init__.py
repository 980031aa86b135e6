"""The rules, as functions of values.

Nothing here does I/O, knows Django, holds a connection or reads a clock. What decides — which
moves a row may make, what an ending becomes, when a retry falls, what a value looks like when
stored — is here and nowhere else; the other packages fetch, ask, and write what was decided.

Reading order: ``states`` (the table of legal moves), ``records`` (values that cross the driver
seam), ``spec`` (a declaration, resolved), ``settlement`` (an ending, decided), ``retry``,
``failure``, ``jsonform``, ``schema``, ``keys``, ``durations``, ``ids``; for tasks ``cronfields`` (a
calendar on a wall clock), ``cron`` (its instants in a zone), ``catchup`` (what is fired of them).
"""
