-- Budgets of tasks: what a task may spend is reserved in the account of the turn that gives it, until it ends.

ALTER TABLE dispatches ADD COLUMN max_tokens INTEGER CHECK (max_tokens >= 0);
-- Billionths of a US dollar.
ALTER TABLE dispatches ADD COLUMN max_nanos INTEGER CHECK (max_nanos >= 0);
-- The account in which it is reserved; NULL where that turn has no budget.
ALTER TABLE dispatches ADD COLUMN parent_account TEXT;

CREATE INDEX dispatches_reserved ON dispatches (parent_account) WHERE status = 'active' AND parent_account IS NOT NULL;
CREATE INDEX dispatches_in_tree ON dispatches (root_turn_id) WHERE status = 'active';
