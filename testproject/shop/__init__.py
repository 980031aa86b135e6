"""A small shop: an order is taken over HTTP, its checkout is a job.

The ledger stands for the world outside (a payment provider, a warehouse): it is written by the job
alone and knows orders only by their reference, so it shows what went wrong. Entries without an order
are ghosts, orders without an entry are losses, and an entry that was asked for twice counts it.
"""
