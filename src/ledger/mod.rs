//! The ledger: turns in SQLite, all or nothing. It must never hold a transaction across an await.
