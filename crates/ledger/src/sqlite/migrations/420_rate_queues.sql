-- What the processes share of the limits of a provider's model: see docs/rules/failover.md#shared-limits.
CREATE TABLE rate_queues (
  queue TEXT PRIMARY KEY NOT NULL,
  state TEXT NOT NULL
) STRICT, WITHOUT ROWID;
