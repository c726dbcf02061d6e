//! The port of tasks of agents over the statements. It must never decide what is admitted.

use model::{
    AgentSent, Dispatch, DispatchCancel, DispatchFilter, DispatchStore, NewAgentMessage,
    PortFuture, QueueLimits,
};
use tokio_postgres::types::Type;

use crate::connect::error::Stored;
use crate::connect::server::Server;
use crate::handle::postgres::Postgres;
use crate::queue::dispatch_rows::{self, CANCELLED, OF_PARENT, OF_SESSION, PARKED, READ, SPAWNED};
use crate::queue::transaction::Transaction;
use crate::queue::{agent_messages, dispatch_changes};

async fn read(server: &Server, condition: &str, of: &str) -> Stored<Vec<Dispatch>> {
    let text = dispatch_rows::select(condition);
    dispatch_rows::all(&server.rows("read the dispatches", &text, &[(&of, Type::TEXT)]).await?)
}

impl Postgres {
    fn dispatches_of(
        &self,
        condition: &'static str,
        of: &str,
    ) -> PortFuture<'static, Vec<Dispatch>> {
        let of = of.to_owned();
        self.submit(None, move |server| async move { read(&server, condition, &of).await })
    }
}

impl DispatchStore for Postgres {
    fn send(
        &self,
        message: Box<NewAgentMessage>,
        limits: QueueLimits,
    ) -> PortFuture<'static, AgentSent> {
        let label = message.to_session.clone();
        self.change(
            Some(&label),
            "send a message of an agent",
            async move |transaction: &Transaction<'_>| {
                agent_messages::send(transaction, &message, limits).await
            },
        )
    }

    fn dispatch<'a>(&'a self, id: &'a str) -> PortFuture<'a, Option<Dispatch>> {
        let found = self.dispatches_of(READ, id);
        Box::pin(async move { Ok(found.await?.pop()) })
    }

    fn dispatches(&self, filter: DispatchFilter) -> PortFuture<'_, Vec<Dispatch>> {
        let found = match (&filter.parent_session, &filter.session_label) {
            (Some(parent), _) => self.dispatches_of(OF_PARENT, parent),
            (None, Some(label)) => self.dispatches_of(OF_SESSION, label),
            (None, None) => return Box::pin(std::future::ready(Ok(Vec::new()))),
        };
        Box::pin(async move {
            let mut found = found.await?;
            found.reverse();
            Ok(found)
        })
    }

    fn spawned<'a>(&'a self, session_label: &'a str) -> PortFuture<'a, Option<Dispatch>> {
        let found = self.dispatches_of(SPAWNED, session_label);
        Box::pin(async move { Ok(found.await?.pop()) })
    }

    fn is_parked<'a>(&'a self, session_label: &'a str) -> PortFuture<'a, bool> {
        let label = session_label.to_owned();
        self.submit(None, move |server| async move {
            let of = [(&label as _, Type::TEXT)];
            Ok(server.row("read what waits for a decision", PARKED, &of).await?.is_some())
        })
    }

    fn cancel_dispatch(
        &self,
        id: String,
        why: DispatchCancel,
    ) -> PortFuture<'static, Option<Dispatch>> {
        self.change(None, "cancel a dispatch", async move |transaction: &Transaction<'_>| {
            dispatch_changes::cancel(transaction, &id, why).await
        })
    }

    fn has_overdue(&self) -> PortFuture<'_, bool> {
        let now = self.clock.now_ms();
        self.submit(None, move |server| async move {
            let text = "select from @dispatches where status = 'active' and deadline is not null and deadline <= $1 limit 1";
            let of = [(&now as _, Type::INT8)];
            Ok(server.row("read the deadlines of the dispatches", text, &of).await?.is_some())
        })
    }

    fn end_overdue(&self) -> PortFuture<'static, Vec<String>> {
        self.change(None, "end overdue dispatches", async move |transaction: &Transaction<'_>| {
            dispatch_changes::end_overdue(transaction).await
        })
    }

    fn cancelled(&self) -> PortFuture<'_, Vec<Dispatch>> {
        self.dispatches_of(CANCELLED, "")
    }
}
