//! The port `DispatchStore` over the writer and the readers. It must never decide what is admitted.

use crate::handle::ledger::Ledger;
use crate::queue::dispatch_rows::{
    self, CANCELLED, HAS_OVERDUE, OF_PARENT, OF_SESSION, PARKED, SPAWNED,
};
use crate::queue::{agent_messages, dispatch_changes};
use crate::sqlite::sql;
use model::{
    AgentSent, Dispatch, DispatchCancel, DispatchFilter, DispatchStore, NewAgentMessage,
    PortFuture, QueueLimits,
};

impl DispatchStore for Ledger {
    fn send(
        &self,
        message: Box<NewAgentMessage>,
        limits: QueueLimits,
    ) -> PortFuture<'static, AgentSent> {
        self.change_queue(move |connection, claim| {
            agent_messages::send(connection, claim, &message, limits)
        })
    }

    fn dispatch<'a>(&'a self, id: &'a str) -> PortFuture<'a, Option<Dispatch>> {
        let id = id.to_owned();
        self.read_row(move |connection| {
            Ok(dispatch_rows::of_id(connection, &id)?.map(|stored| stored.dispatch))
        })
    }

    fn dispatches(&self, filter: DispatchFilter) -> PortFuture<'_, Vec<Dispatch>> {
        self.read_small(move |connection| {
            let (sql, label) = match (&filter.parent_session, &filter.session_label) {
                (Some(parent), _) => (&OF_PARENT, parent),
                (None, Some(label)) => (&OF_SESSION, label),
                (None, None) => return Ok(Vec::new()),
            };
            let mut found = dispatch_rows::read(connection, sql, (label,))?;
            found.reverse();
            Ok(found)
        })
    }

    fn spawned<'a>(&'a self, session_label: &'a str) -> PortFuture<'a, Option<Dispatch>> {
        let label = session_label.to_owned();
        self.read_row(move |connection| {
            Ok(dispatch_rows::read(connection, &SPAWNED, (&label,))?.pop())
        })
    }

    fn is_parked<'a>(&'a self, session_label: &'a str) -> PortFuture<'a, bool> {
        let label = session_label.to_owned();
        self.read_row(move |connection| {
            sql::exists(connection, PARKED, (&label,), "read what waits for a decision")
        })
    }

    fn cancel_dispatch(
        &self,
        id: String,
        why: DispatchCancel,
    ) -> PortFuture<'static, Option<Dispatch>> {
        self.change_queue(move |connection, claim| {
            dispatch_changes::cancel(connection, &id, why, &claim.clock)
        })
    }

    fn has_overdue(&self) -> PortFuture<'_, bool> {
        let clock = self.clock.clone();
        self.read_row(move |connection| {
            let doing = "read the deadlines of the dispatches";
            sql::exists(connection, HAS_OVERDUE, (clock.now_ms(),), doing)
        })
    }

    fn end_overdue(&self) -> PortFuture<'static, Vec<String>> {
        self.change_queue(|connection, claim| {
            dispatch_changes::end_overdue(connection, &claim.clock)
        })
    }

    fn cancelled(&self) -> PortFuture<'_, Vec<Dispatch>> {
        self.read_row(|connection| dispatch_rows::read(connection, &CANCELLED, ()))
    }
}
