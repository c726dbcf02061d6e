-- What the processes share of the limits of a provider's model: see docs/rules/failover.md#shared-limits.

create table @rate_queues (
  queue text collate "C" primary key,
  state text
) with (fillfactor = 50);
