"""The way out: claim, run, settle.

One thread, the dispatcher (``loop``), owns every decision and one connection: it claims what there
is room for, hands each claim to a body thread (``threads``), and writes endings in groups as they
come. A body thread runs one attempt (``execute``) and says how it ended; it holds no connection
until the body uses one. A third thread gives one sign of life for all claims (``lease``).

    claim ──▶ held ──▶ body thread ──▶ outcome ──▶ verdict ──▶ settle ──▶ on_settled
                 │                                                 ▲
                 └── deadline, drain, lost lease: abort the token ─┘

When the process dies, its claims lapse and are taken again; every write it could still make names
a claim that no longer stands, and changes nothing. When the database dies, endings are kept and
written when it is back, each behind its fence.

Reading order: ``loop``, ``claimer``, ``held``, ``execute``, ``settle``, ``hooks``, ``lease``,
``threads``.
"""
