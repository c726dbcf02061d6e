//! The connections of a process: at most as many as the options allow, opened when they are needed, used again.
//!
//! A connection that the server ended is dropped. It must never hand out one that another statement's transaction uses.

use std::cell::RefCell;
use std::rc::Rc;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{Client, Connection, Error, Socket};

use crate::connect::error::{Failure, Stored, closed};
use crate::connect::options::PostgresOptions;
use crate::connect::tls::Tls;

pub(crate) struct Pool {
    options: PostgresOptions,
    tls: Tls,
    idle: RefCell<Vec<Client>>,
    permits: Semaphore,
}

/// The part of a connection that is driven.
pub(crate) type PoolConnection = Connection<Socket, <Tls as MakeTlsConnect<Socket>>::Stream>;

/// A connection of the pool, returned when it is dropped.
pub(crate) struct Pooled<'a> {
    client: Option<Client>,
    pool: &'a Pool,
    _permit: SemaphorePermit<'a>,
}

impl Pool {
    pub(crate) fn new(options: PostgresOptions) -> Stored<Rc<Self>> {
        let tls = Tls::new(&options.tls)?;
        let permits = Semaphore::new(options.pool);
        Ok(Rc::new(Self { options, tls, idle: RefCell::new(Vec::new()), permits }))
    }

    /// A connection, once one is free.
    pub(crate) async fn get(&self) -> Result<Pooled<'_>, Failure> {
        let permit = self.permits.acquire().await.map_err(|_| closed())?;
        let idle = loop {
            let Some(client) = self.idle.borrow_mut().pop() else { break None };
            if !client.is_closed() {
                break Some(client);
            }
        };
        let client = match idle {
            Some(client) => client,
            None => self.connect().await?,
        };
        Ok(Pooled { client: Some(client), pool: self, _permit: permit })
    }

    /// Closes the idle connections, and refuses to open others.
    pub(crate) fn close(&self) {
        self.permits.close();
        self.idle.borrow_mut().clear();
    }

    /// A new connection, which its owner drives.
    pub(crate) async fn open(&self) -> Result<(Client, PoolConnection), Error> {
        self.options.config.connect(self.tls.clone()).await
    }

    async fn connect(&self) -> Result<Client, Error> {
        let (client, connection) = self.open().await?;
        // It ends with its client, or with the server: the client reports why.
        tokio::task::spawn_local(async move { drop(connection.await) });
        Ok(client)
    }
}

impl Pooled<'_> {
    /// The client, also for a transaction.
    pub(crate) fn client(&mut self) -> Stored<&mut Client> {
        self.client.as_mut().ok_or_else(closed)
    }
}

impl Drop for Pooled<'_> {
    fn drop(&mut self) {
        if let Some(client) = self.client.take().filter(|client| !client.is_closed())
            && !self.pool.permits.is_closed()
        {
            self.pool.idle.borrow_mut().push(client);
        }
    }
}
