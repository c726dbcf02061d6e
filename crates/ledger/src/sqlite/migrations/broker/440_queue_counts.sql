-- What the cap of a session's queue counts, without a look at the rows, whose messages may be long.

CREATE INDEX queue_items_counted ON queue_items (session_label, n, mode, id)
  WHERE status = 'pending' AND turn_id IS NULL AND is_system = 0;
