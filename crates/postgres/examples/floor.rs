//! The floor of the bench: the statements of one turn, sent again by `tokio-postgres` over a pool and nothing else.
//!
//! Arguments: a URL, a file with the statements that `bench/postgres/floor.mjs` writes, sessions, connections, turns of each session
//! before the time begins, and turns of each session in it. It prints what it measured as JSON. It must never do what a statement
//! does not: no checks, no bodies, no events.
#![allow(clippy::print_stdout, reason = "a program that prints its figures")]

use std::cell::RefCell;
use std::error::Error;
use std::rc::Rc;

use base::clock::Clock;
use serde::Deserialize;
use tokio::sync::Semaphore;
use tokio::task::{JoinSet, LocalSet};
use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{IsNull, ToSql, Type};
use tokio_postgres::{Client, Config, NoTls};

type Failed = Box<dyn Error>;

/// What one turn sends.
#[derive(Deserialize)]
struct Turn {
    statements: Vec<Statement>,
    /// The ids that each turn has anew, and which of them is its own.
    ids: usize,
    turn: usize,
    /// The turn that the first one of each session follows.
    parent: String,
    labels: Vec<String>,
}

#[derive(Deserialize)]
struct Statement {
    sql: String,
    params: Vec<Param>,
}

#[derive(Deserialize)]
struct Param {
    oid: u32,
    /// The bytes as they were sent.
    bytes: Option<Vec<u8>>,
    /// What is another text of the same length in each turn, by its position.
    changes: Vec<(usize, Change)>,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "lowercase")]
enum Change {
    Label,
    Parent,
    Id(usize),
}

/// A value in its binary form.
#[derive(Debug)]
struct Bytes(Option<Vec<u8>>);

impl ToSql for Bytes {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        Ok(match &self.0 {
            None => IsNull::Yes,
            Some(bytes) => {
                out.extend_from_slice(bytes);
                IsNull::No
            }
        })
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    tokio_postgres::types::to_sql_checked!();
}

/// As many connections as the engine has, each for one statement at a time.
struct Pool {
    idle: RefCell<Vec<Client>>,
    permits: Semaphore,
}

impl Pool {
    async fn open(url: &str, connections: usize) -> Result<Self, Failed> {
        let config: Config = url.parse()?;
        let mut idle = Vec::new();
        for _ in 0..connections {
            let (client, connection) = config.connect(NoTls).await?;
            tokio::task::spawn_local(connection);
            idle.push(client);
        }
        Ok(Self { idle: RefCell::new(idle), permits: Semaphore::new(connections) })
    }

    async fn send(&self, statement: &Statement, params: Vec<Bytes>) -> Result<(), Failed> {
        let _permit = self.permits.acquire().await?;
        let client = self.idle.borrow_mut().pop().ok_or("no connection is idle")?;
        let types: Vec<Option<Type>> =
            statement.params.iter().map(|param| Type::from_oid(param.oid)).collect();
        let mut typed: Vec<(&(dyn ToSql + Sync), Type)> = Vec::with_capacity(params.len());
        for (value, of) in params.iter().zip(types) {
            typed.push((value, of.ok_or("a parameter has a type of the server's own")?));
        }
        let sent = client.query_typed(&statement.sql, &typed).await;
        self.idle.borrow_mut().push(client);
        sent?;
        Ok(())
    }
}

/// The parameter with what is another one in this turn.
fn filled(param: &Param, label: &str, parent: &str, ids: &[String]) -> Result<Bytes, Failed> {
    let mut bytes = param.bytes.clone();
    for (at, change) in &param.changes {
        let text = match change {
            Change::Label => label,
            Change::Parent => parent,
            Change::Id(n) => ids.get(*n).ok_or("an id has no number")?,
        };
        let place = bytes.as_mut().and_then(|bytes| bytes.get_mut(*at..at + text.len()));
        place.ok_or("a change is outside its value")?.copy_from_slice(text.as_bytes());
    }
    Ok(Bytes(bytes))
}

/// Turns of one session, one after the other; returns the last.
async fn work(
    (turn, pool, next): (Rc<Turn>, Rc<Pool>, Rc<RefCell<u64>>),
    (label, mut parent): (String, String),
    turns: usize,
) -> Result<String, Failed> {
    for _ in 0..turns {
        let ids: Vec<String> = (0..turn.ids)
            .map(|_| {
                // Later ids are greater, as those of the engine are.
                *next.borrow_mut() += 1;
                format!("1{:025}", next.borrow())
            })
            .collect();
        for statement in &turn.statements {
            let params = statement.params.iter();
            let params = params.map(|param| filled(param, &label, &parent, &ids));
            pool.send(statement, params.collect::<Result<_, Failed>>()?).await?;
        }
        parent.clone_from(ids.get(turn.turn).ok_or("the turn has no id")?);
    }
    Ok(parent)
}

async fn run(arguments: &[String]) -> Result<(), Failed> {
    let [url, file, sessions, connections, warm, turns] = arguments else {
        return Err("arguments: URL, file, sessions, connections, turns before, turns".into());
    };
    let turn: Rc<Turn> = Rc::new(serde_json::from_slice(&std::fs::read(file)?)?);
    let (sessions, connections): (usize, usize) = (sessions.parse()?, connections.parse()?);
    let pool = Rc::new(Pool::open(url, connections).await?);
    let next = Rc::new(RefCell::new(0));
    let mut at: Vec<(String, String)> =
        turn.labels.iter().take(sessions).map(|it| (it.clone(), turn.parent.clone())).collect();
    let clock = Clock::default();
    let mut from = clock.instant();
    let turns: usize = turns.parse()?;
    for count in [warm.parse()?, turns] {
        from = clock.instant();
        let mut working = JoinSet::new();
        for (label, parent) in at.drain(..) {
            let shared = (Rc::clone(&turn), Rc::clone(&pool), Rc::clone(&next));
            working.spawn_local(async move {
                let last = work(shared, (label.clone(), parent), count).await;
                last.map(|last| (label, last)).map_err(|error| error.to_string())
            });
        }
        while let Some(worked) = working.join_next().await {
            at.push(worked??);
        }
    }
    let ms = clock.instant().duration_since(from).as_secs_f64() * 1_000.0;
    println!("{}", serde_json::json!({ "turns": sessions * turns, "ms": ms }));
    Ok(())
}

fn main() -> Result<(), Failed> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, run(&arguments))
}
