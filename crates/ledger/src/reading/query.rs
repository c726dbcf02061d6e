//! The host's own SQL, read-only, so that a host needs no second SQLite on the ledger (docs/rules/faults.md#no-second-sqlite).
//!
//! An authorizer allows reading and nothing else, and SQLite itself must report the statement as read-only. A limit of rows,
//! bytes or time that was reached is reported, never silent. It must never run on a connection that can write.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, ErrorCode, params_from_iter};

use crate::sqlite::error::{Stored, sqlite};
use base::clock::Clock;
use model::{QueryLimits, QueryResult, QueryRow, StorageError, StorageErrorKind, Truncation};

/// The largest integer that JavaScript represents exactly.
const SAFE_INTEGER: i64 = (1 << 53) - 1;
/// Instructions of SQLite between two checks of the clock.
const STEPS: i32 = 4_000;

/// Denies everything but reading, for the lifetime of the connection.
pub(crate) fn guard(mut connection: Connection) -> Stored<Connection> {
    connection
        .authorizer(Some(authorize))
        .map_err(|error| sqlite("guard the ledger's query connection", &error))?;
    Ok(connection)
}

fn authorize(context: AuthContext<'_>) -> Authorization {
    match context.action {
        AuthAction::Select | AuthAction::Read { .. } | AuthAction::Recursive => {
            Authorization::Allow
        }
        AuthAction::Function { function_name }
            if !function_name.eq_ignore_ascii_case("load_extension") =>
        {
            Authorization::Allow
        }
        // The search index checks before a read whether another connection has written.
        AuthAction::Pragma { pragma_name, pragma_value: None }
            if pragma_name.eq_ignore_ascii_case("data_version") =>
        {
            Authorization::Allow
        }
        _ => Authorization::Deny,
    }
}

/// Runs one statement. `params` is the JSON text of an array of strings, numbers, booleans and nulls.
pub(crate) fn run(
    connection: &mut Connection,
    sql: &str,
    params: &str,
    limits: QueryLimits,
    clock: &Clock,
) -> Stored<QueryResult> {
    let params = bind(params)?;
    let late = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&late);
    let (timer, deadline) = (clock.clone(), clock.instant() + limits.time);
    let watch = move || {
        let over = timer.instant() >= deadline;
        if over {
            flag.store(true, Ordering::Relaxed);
        }
        over
    };
    let failed = |error| sqlite("guard the ledger's query connection", &error);
    connection.progress_handler(STEPS, Some(watch)).map_err(failed)?;
    let result = collect(connection, sql, params, limits);
    connection.progress_handler(0, None::<fn() -> bool>).map_err(failed)?;
    result.map_err(|refusal| match refusal {
        Refusal::Sqlite(_) if late.load(Ordering::Relaxed) => invalid(&format!(
            "the query ran longer than `{}` ms; narrow it",
            limits.time.as_millis()
        )),
        Refusal::Sqlite(error) => explain(&error),
        Refusal::Other(error) => error,
    })
}

enum Refusal {
    Sqlite(rusqlite::Error),
    Other(StorageError),
}

impl From<rusqlite::Error> for Refusal {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

fn collect(
    connection: &Connection,
    sql: &str,
    params: Vec<Value>,
    limits: QueryLimits,
) -> Result<QueryResult, Refusal> {
    let mut statement = connection.prepare(sql)?;
    if !statement.readonly() || statement.column_count() == 0 {
        return Err(Refusal::Other(invalid("the statement is not a read; pass one SELECT")));
    }
    let expected = statement.parameter_count();
    if expected != params.len() {
        return Err(Refusal::Other(invalid(&format!(
            "the statement has `{expected}` parameters and `{}` were passed",
            params.len()
        ))));
    }
    let columns: Arc<[String]> = distinct(statement.column_names()).into();
    let mut left = limits.bytes;
    let mut found = Vec::new();
    let mut truncated = None;
    let mut rows = statement.query(params_from_iter(params))?;
    while let Some(row) = rows.next()? {
        if found.len() == limits.rows {
            truncated = Some(Truncation::Rows);
            break;
        }
        let mut values = Vec::with_capacity(columns.len());
        let mut size = 0;
        for index in 0..columns.len() {
            let value = row.get_ref(index)?;
            size += value.as_bytes_or_null().ok().flatten().map_or(8, <[u8]>::len);
            values.push(value);
        }
        let Some(rest) = left.checked_sub(size) else {
            truncated = Some(Truncation::Bytes);
            break;
        };
        left = rest;
        let values = values.into_iter().map(to_json).collect();
        found.push(QueryRow { columns: Arc::clone(&columns), values });
    }
    Ok(QueryResult { columns: columns.to_vec(), rows: found, truncated })
}

fn bind(params: &str) -> Stored<Vec<Value>> {
    let values: Vec<serde_json::Value> = serde_json::from_str(params)
        .map_err(|_| invalid("`params` is not an array; pass the statement's values in order"))?;
    values
        .into_iter()
        .enumerate()
        .map(|(index, value)| match value {
            serde_json::Value::Null => Ok(Value::Null),
            serde_json::Value::Bool(on) => Ok(Value::Integer(i64::from(on))),
            serde_json::Value::String(text) => Ok(Value::Text(text)),
            serde_json::Value::Number(number) => number
                .as_i64()
                .map(Value::Integer)
                .or_else(|| number.as_f64().map(Value::Real))
                .ok_or_else(|| invalid(&format!("`params[{index}]` is not a number SQLite has"))),
            serde_json::Value::Array(_) | serde_json::Value::Object(_) => Err(invalid(&format!(
                "`params[{index}]` is not a string, number, boolean or null; pass JSON as text"
            ))),
        })
        .collect()
}

fn to_json(value: ValueRef<'_>) -> serde_json::Value {
    match value {
        ValueRef::Null => serde_json::Value::Null,
        ValueRef::Integer(number) if number.abs() <= SAFE_INTEGER => number.into(),
        ValueRef::Integer(number) => number.to_string().into(),
        ValueRef::Real(number) => serde_json::Number::from_f64(number)
            .map_or_else(|| number.to_string().into(), serde_json::Value::Number),
        ValueRef::Text(text) => String::from_utf8_lossy(text).into(),
        ValueRef::Blob(bytes) => {
            bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into()
        }
    }
}

/// Names as keys of an object: the second `id` becomes `id_2`.
fn distinct<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut taken: Vec<String> = Vec::new();
    for name in names {
        let mut candidate = name.to_owned();
        let mut number = 2;
        while taken.contains(&candidate) {
            candidate = format!("{name}_{number}");
            number += 1;
        }
        taken.push(candidate);
    }
    taken
}

fn explain(error: &rusqlite::Error) -> StorageError {
    if matches!(error, rusqlite::Error::MultipleStatement) {
        return invalid("there is more than one statement; pass one SELECT");
    }
    match error.sqlite_error_code() {
        Some(ErrorCode::AuthorizationForStatementDenied) => {
            invalid("the statement does more than read; pass one SELECT over the ledger's tables")
        }
        // A wrong statement, a wrong value, or one that is too large.
        Some(
            ErrorCode::Unknown
            | ErrorCode::TooBig
            | ErrorCode::TypeMismatch
            | ErrorCode::ParameterOutOfRange
            | ErrorCode::ReadOnly,
        ) => invalid(&format!("the statement cannot be run: {error}")),
        Some(_) => sqlite("run the query", error),
        None => invalid(&format!("the statement cannot be run: {error}")),
    }
}

fn invalid(message: &str) -> StorageError {
    StorageError::new(StorageErrorKind::InvalidQuery, message)
}
