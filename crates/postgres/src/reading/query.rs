//! The host's own SQL: one statement in a transaction that only reads, within limits of time, rows and bytes.
//!
//! A limit that was reached is reported, never silent. It must never run outside such a transaction.

use std::error::Error;
use std::pin::pin;
use std::sync::Arc;

use futures_util::TryStreamExt;
use serde_json::Value;
use tokio::time::timeout;
use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{Format, IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{Client, Row, Statement, Transaction};

use crate::connect::error::{Failure, Stored};
use crate::connect::server::Server;
use model::{QueryLimits, QueryResult, QueryRow, StorageError, StorageErrorKind, Truncation};

/// The largest integer that JavaScript represents exactly.
const SAFE_INTEGER: u64 = (1 << 53) - 1;
/// Rows of one fetch. They are read one by one: the connection waits while one is not taken.
const FETCH: i32 = 256;

/// A parameter as the text that the server reads, whatever its type is.
#[derive(Debug)]
struct Text(Option<String>);

impl ToSql for Text {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        let Some(text) = &self.0 else { return Ok(IsNull::Yes) };
        out.extend_from_slice(text.as_bytes());
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn encode_format(&self, _: &Type) -> Format {
        Format::Text
    }

    to_sql_checked!();
}

/// Runs one statement. `params` is the JSON text of an array of strings, numbers, booleans and nulls.
pub(crate) async fn query(
    server: &Server,
    sql: &str,
    params: &str,
    limits: QueryLimits,
) -> Stored<QueryResult> {
    let params = bind(params)?;
    let schema = server.channel.as_str();
    let begin = format!(
        "set local statement_timeout = {}; set local search_path = \"{schema}\"",
        limits.time.as_millis().max(1)
    );
    let read = server.run_soon("run the query", async |client: &mut Client, _| {
        let transaction = client.build_transaction().read_only(true).start().await?;
        transaction.batch_execute(&begin).await?;
        // The server's limit is for each fetch.
        let all = timeout(limits.time, collect(&transaction, sql, &params, limits)).await;
        match all.unwrap_or_else(|_| Err(too_long(limits).into())) {
            Err(Failure::Server(error)) if error.as_db_error().is_some() => {
                Err(Failure::Refused(explain(&error, limits)))
            }
            Ok(result) => {
                // A lock of the session would stay with its connection.
                transaction.batch_execute("rollback; select pg_advisory_unlock_all()").await?;
                Ok(result)
            }
            failed => failed,
        }
    });
    read.await
}

async fn collect(
    transaction: &Transaction<'_>,
    sql: &str,
    params: &[Text],
    limits: QueryLimits,
) -> Result<QueryResult, Failure> {
    // By itself first: it must be one statement, and names the columns.
    let sql = sql.trim_end().trim_end_matches(';');
    let statement = transaction.prepare(sql).await?;
    let expected = statement.params().len();
    if statement.columns().is_empty() {
        return Err(invalid("the statement is not a read; pass one SELECT").into());
    }
    if expected != params.len() {
        let message =
            format!("the statement has `{expected}` parameters and `{}` were passed", params.len());
        return Err(invalid(&message).into());
    }
    let names: Vec<String> = (0..statement.columns().len()).map(|n| format!("c{n}")).collect();
    let values: Vec<String> = names.iter().map(|name| format!("to_json({name})::text")).collect();
    // Inside another one: what only may stand alone is no read. A row that alone is larger than the limit is not sent.
    let whole = format!(
        "select case when (select coalesce(sum(octet_length(v)), 0) from unnest(r.row) as v) <= {} then r.row end
         from (select array[{}]::text[] as row from (\n{sql}\n) as q ({}) offset 0) as r",
        limits.bytes,
        values.join(", "),
        names.join(", ")
    );
    let types = statement.params();
    let whole = transaction.prepare_typed(&whole, types).await?;
    let columns: Arc<[String]> = distinct(&statement).into();
    let params: Vec<&(dyn ToSql + Sync)> =
        params.iter().map(|it| it as &(dyn ToSql + Sync)).collect();
    let portal = transaction.bind(&whole, &params).await?;
    let mut left = limits.bytes;
    let mut found = Vec::new();
    loop {
        let mut rows = pin!(transaction.query_portal_raw(&portal, FETCH).await?);
        let mut fetched = 0;
        while let Some(row) = rows.try_next().await? {
            fetched += 1;
            let truncated = if found.len() == limits.rows {
                Some(Truncation::Rows)
            } else {
                match read_row(&row, &columns, &mut left)? {
                    Some(row) => {
                        found.push(row);
                        None
                    }
                    None => Some(Truncation::Bytes),
                }
            };
            if truncated.is_some() {
                return Ok(QueryResult { columns: columns.to_vec(), rows: found, truncated });
            }
        }
        if fetched < FETCH {
            return Ok(QueryResult { columns: columns.to_vec(), rows: found, truncated: None });
        }
    }
}

/// A row, if it is within the bytes that are left.
fn read_row(
    row: &Row,
    columns: &Arc<[String]>,
    left: &mut usize,
) -> Result<Option<QueryRow>, Failure> {
    let Some(texts) = row.try_get::<_, Option<Vec<Option<&str>>>>(0)? else { return Ok(None) };
    let size = texts.iter().map(|text| text.map_or(8, str::len)).sum();
    let Some(rest) = left.checked_sub(size) else { return Ok(None) };
    *left = rest;
    let values = texts.into_iter().map(value).collect();
    Ok(Some(QueryRow { columns: Arc::clone(columns), values }))
}

/// A value as in a file's ledger: a large integer is a text, and what is no plain value is its JSON.
fn value(text: Option<&str>) -> Value {
    let Some(text) = text else { return Value::Null };
    match serde_json::from_str(text) {
        Ok(Value::String(text)) => match text.strip_prefix("\\x") {
            Some(hex) => Value::from(hex),
            None => Value::from(text),
        },
        Ok(Value::Number(number))
            if number.as_f64().is_none_or(|it| it.abs() > SAFE_INTEGER as f64) =>
        {
            Value::from(text)
        }
        Ok(value @ (Value::Null | Value::Bool(_) | Value::Number(_))) => value,
        Ok(Value::Array(_) | Value::Object(_)) | Err(_) => Value::from(text),
    }
}

/// Names as keys of an object: the second `id` becomes `id_2`.
fn distinct(statement: &Statement) -> Vec<String> {
    let mut taken: Vec<String> = Vec::new();
    for column in statement.columns() {
        let mut candidate = column.name().to_owned();
        let mut number = 2;
        while taken.contains(&candidate) {
            candidate = format!("{}_{number}", column.name());
            number += 1;
        }
        taken.push(candidate);
    }
    taken
}

fn bind(params: &str) -> Stored<Vec<Text>> {
    let values: Vec<Value> = serde_json::from_str(params)
        .map_err(|_| invalid("`params` is not an array; pass the statement's values in order"))?;
    let texts = values.into_iter().enumerate().map(|(index, value)| match value {
        Value::Null => Ok(Text(None)),
        Value::Bool(on) => Ok(Text(Some(on.to_string()))),
        Value::String(text) => Ok(Text(Some(text))),
        Value::Number(number) => Ok(Text(Some(number.to_string()))),
        Value::Array(_) | Value::Object(_) => Err(invalid(&format!(
            "`params[{index}]` is not a string, number, boolean or null; pass JSON as text"
        ))),
    });
    texts.collect()
}

fn explain(error: &tokio_postgres::Error, limits: QueryLimits) -> StorageError {
    let Some(server) = error.as_db_error() else { return invalid(&error.to_string()) };
    let (code, message) = (server.code().code(), server.message());
    match code {
        "57014" => too_long(limits),
        "25006" => {
            invalid("the statement does more than read; pass one SELECT over the ledger's tables")
        }
        _ => invalid(&format!("the statement cannot be run: {message} ({code})")),
    }
}

fn too_long(limits: QueryLimits) -> StorageError {
    let limit = limits.time.as_millis();
    invalid(&format!("the query ran longer than `{limit}` ms; narrow it"))
}

fn invalid(message: &str) -> StorageError {
    StorageError::new(StorageErrorKind::InvalidQuery, message)
}
