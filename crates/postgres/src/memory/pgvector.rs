//! The index of pgvector over the vectors of a model, where the host asks for it and the server has it.
//!
//! A model's index is a table beside `memory_vectors`, whose rows go with the vectors. Only an owner of the schema creates it; every
//! process that stores vectors fills it. A search uses it once it has all vectors, and scans the codes otherwise. It must never answer
//! a search by itself: candidates are ranked by their stored vectors. Nor may its failure be one of the memory's.

use std::fmt::Write;
use std::sync::atomic::Ordering;

use base::clock::Clock;
use memory::vectors::vector::read_bytes;
use tokio_postgres::types::Type;

use crate::connect::error::{Failure, Stored, damaged};
use crate::connect::server::{Param, Server};
use crate::memory::chunks;
use crate::queue::transaction::{Transaction, transact};
use crate::rows::turn_read::get;
use model::{MemoryQuery, StorageError, StorageErrorKind, VectorSearch};

/// Vectors that are added at once: other writes to the memory wait meanwhile.
const PAGE: i64 = 100;
/// The most dimensions of `halfvec` in an index.
const MOST_DIMENSIONS: i32 = 4_000;
/// The most vectors of the scopes of a search that are all compared: the graph knows no scope, and finds too few of a narrow one.
const NARROW: i64 = 10_000;
/// The candidates of one pass through the graph; a selective filter takes more passes.
const EACH_PASS: &str = "200";
const INDEXING: &str = "index the vectors of the memory by pgvector";
const SEARCHING: &str = "search the index of pgvector";
const NO_EXTENSION: &str = "the database has no extension `vector` of version 0.8 or newer that the role may use; run `create extension vector`";

/// The schema of an extension with iterative scans.
const EXTENSION: &str = "select e.extnamespace::regnamespace::text as schema from pg_extension e where e.extname = 'vector'
       and (regexp_match(e.extversion, '^([0-9]+)[.]([0-9]+)'))::int[] >= '{0,8}' and has_schema_privilege(e.extnamespace, 'usage')";

fn table(model: i64) -> String {
    format!("@memory_index_{model}")
}

/// What a role may do with the index of a model.
struct State {
    /// Of the extension, if there is one.
    schema: Option<String>,
    exists: bool,
    may_read: bool,
    may_fill: bool,
    may_create: bool,
    dimensions: i32,
}

async fn state(server: &Server, model: i64) -> Stored<State> {
    let text = format!(
        "select e.schema, i.n is not null as has_table, coalesce(has_table_privilege(i.n, 'select'), false) as may_read,
           coalesce(has_table_privilege(i.n, 'select') and has_table_privilege(i.n, 'insert'), false) as may_fill,
           pg_has_role(c.relowner, 'usage') and has_schema_privilege(c.relnamespace, 'create') as may_create, m.dimensions
         from @memory_models m join pg_class c on c.oid = to_regclass($2) cross join (select to_regclass($3) as n) i
         left join ({EXTENSION}) e on true where m.n = $1"
    );
    let (vectors, index) = (server.sql("@memory_vectors"), server.sql(&table(model)));
    let of: [Param<'_>; 3] = [(&model, Type::INT8), (&vectors, Type::TEXT), (&index, Type::TEXT)];
    let row = server.row(INDEXING, &text, &of).await?;
    let row = row.ok_or_else(|| damaged("a model of the memory is gone"))?;
    Ok(State {
        schema: get(&row, "schema")?,
        exists: get(&row, "has_table")?,
        may_read: get(&row, "may_read")?,
        may_fill: get(&row, "may_fill")?,
        may_create: get(&row, "may_create")?,
        dimensions: get(&row, "dimensions")?,
    })
}

/// Adds a page of vectors to the index of the model, which is created first where the host wants it and the role may. Returns whether
/// there may be more.
pub(crate) async fn index(server: &Server, model: i64) -> bool {
    match add_page(server, model).await {
        Ok(added) => {
            if added.is_some() {
                server.index_problem.take();
            }
            added == Some(true)
        }
        Err(error) => {
            // Searches scan meanwhile, and the counts have the reason.
            server.index_problem.replace(Some(error.message));
            false
        }
    }
}

/// `None` where there is no index that the role may fill.
async fn add_page(server: &Server, model: i64) -> Stored<Option<bool>> {
    let state = state(server, model).await?;
    if !state.exists {
        // What failed once is not tried with each vector.
        let is_wanted = wants(server) && server.index_problem.borrow().is_none();
        if !is_wanted || !state.may_create || state.dimensions > MOST_DIMENSIONS {
            return Ok(None);
        }
    } else if state.schema.is_none() || !state.may_fill {
        return Ok(None);
    }
    let work = async |transaction: &Transaction<'_>| {
        // The vectors become visible in the order of their numbers.
        chunks::lock(transaction).await?;
        let schema = match &state.schema {
            Some(schema) if state.exists => schema.clone(),
            _ => create(transaction, model, &state).await?,
        };
        add(transaction, model, &schema).await
    };
    transact((server, &Clock::default()), INDEXING, work).await.map(Some)
}

fn wants(server: &Server) -> bool {
    server.live.uses_pgvector.load(Ordering::Acquire)
}

/// Creates the index, which is empty, and the extension where it is missing. Returns the extension's schema.
async fn create(
    transaction: &Transaction<'_>,
    model: i64,
    state: &State,
) -> Result<String, Failure> {
    if state.schema.is_none() {
        transaction.exec("create extension if not exists vector", &[]).await?;
    }
    let row = transaction.row(EXTENSION, &[]).await?;
    let missing = || StorageError::new(StorageErrorKind::Unsupported, NO_EXTENSION);
    let schema: String = get(&row.ok_or_else(missing)?, "schema")?;
    let (table, dimensions) = (table(model), state.dimensions);
    let text = format!(
        "create table if not exists {table} (
           n bigint primary key references @memory_vectors (n) on delete cascade, chunk bigint not null, scope bigint not null,
           kind text collate \"C\" not null, created_at bigint not null, e {schema}.halfvec({dimensions}) not null);
         create index if not exists memory_index_{model}_by_scope on {table} (scope);
         create index if not exists memory_index_{model}_by_vector on {table} using hnsw (e {schema}.halfvec_ip_ops)"
    );
    transaction.client.batch_execute(&transaction.server.sql(&text)).await?;
    Ok(schema)
}

/// Adds a page of vectors. Returns whether there may be more.
async fn add(transaction: &Transaction<'_>, model: i64, schema: &str) -> Result<bool, Failure> {
    let table = table(model);
    let text = format!(
        "select v.n, v.vector, m.dimensions from @memory_vectors v join @memory_models m on m.n = v.model
         where v.model = $1 and v.n > coalesce((select max(n) from {table}), 0) order by v.n limit $2"
    );
    let rows = transaction.rows(&text, &[(&model, Type::INT8), (&PAGE, Type::INT8)]).await?;
    let (mut numbers, mut vectors): (Vec<i64>, Vec<String>) = Default::default();
    for row in &rows {
        let dimensions = usize::try_from(get::<i32>(row, "dimensions")?).unwrap_or_default();
        let mut vector = vec![0.0; dimensions];
        if read_bytes(get(row, "vector")?, &mut vector) {
            numbers.push(get(row, "n")?);
            vectors.push(written(&vector));
        }
    }
    let insert = format!(
        "insert into {table} (n, chunk, scope, kind, created_at, e)
         select v.n, v.chunk, c.scope, c.kind, c.created_at, i.e::{schema}.halfvec
         from unnest($1::int8[], $2::text[]) as i (n, e) join @memory_vectors v on v.n = i.n join @memory_chunks c on c.n = v.chunk"
    );
    let of: [Param<'_>; 2] = [(&numbers, Type::INT8_ARRAY), (&vectors, Type::TEXT_ARRAY)];
    let added = transaction.exec(&insert, &of).await?;
    Ok(added > 0 && i64::try_from(rows.len()).is_ok_and(|read| read == PAGE))
}

/// A vector as pgvector reads it.
fn written(vector: &[f32]) -> String {
    let mut text = String::with_capacity(vector.len() * 12);
    for (at, number) in vector.iter().enumerate() {
        text.push(if at == 0 { '[' } else { ',' });
        // A text takes all that is written to it.
        let _ = write!(text, "{number}");
    }
    text.push(']');
    text
}

/// An index that a search may use.
struct Usable {
    /// Of the extension.
    schema: String,
    /// The vectors in the scopes of the search, up to one more than are all compared.
    in_scopes: i64,
}

/// The index of the model, if a search may use it.
///
/// # Errors
/// Why not, in the inner one.
async fn usable(
    server: &Server,
    model: i64,
    scopes: &Option<Vec<i64>>,
) -> Stored<Result<Usable, String>> {
    let state = state(server, model).await?;
    if state.dimensions > MOST_DIMENSIONS {
        return Ok(Err("an index of pgvector has at most 4,000 dimensions".to_owned()));
    }
    let Some(schema) = state.schema else { return Ok(Err(NO_EXTENSION.to_owned())) };
    if !state.may_read {
        let why = if state.exists {
            format!("the role may not read the index; grant it `select` on `memory_index_{model}`")
        } else {
            "there is no index yet; an engine with the role that owns the tables creates it"
                .to_owned()
        };
        return Ok(Err(why));
    }
    let table = table(model);
    let text = format!(
        "select (select max(n) from {table}) is not distinct from (select max(n) from @memory_vectors where model = $1) as has_all,
           (select count(*) from (select from {table} where scope = any($2) limit $3 + 1) s) as in_scopes"
    );
    let of: [Param<'_>; 3] =
        [(&model, Type::INT8), (scopes, Type::INT8_ARRAY), (&NARROW, Type::INT8)];
    let row = server.row(INDEXING, &text, &of).await?;
    let row = row.ok_or_else(|| damaged("the index of the memory cannot be counted"))?;
    if !get::<bool>(&row, "has_all")? {
        return Ok(Err("the index does not have all vectors yet".to_owned()));
    }
    Ok(Ok(Usable { schema, in_scopes: get(&row, "in_scopes")? }))
}

/// How the vectors of the model are searched, and what is wrong with the index that the host asked for.
pub(crate) async fn report(server: &Server, model: i64) -> Stored<(VectorSearch, Option<String>)> {
    if !wants(server) {
        return Ok((VectorSearch::Scan, None));
    }
    let usable = usable(server, model, &None).await?;
    let failed = server.index_problem.borrow().clone();
    Ok(match usable {
        Ok(_) => (VectorSearch::Pgvector, failed),
        Err(why) => (VectorSearch::Scan, failed.or(Some(why))),
    })
}

/// The chunks of the vectors that are probably the closest, the closest first; `None` where the codes are to be scanned.
pub(crate) async fn closest(
    server: &Server,
    (model, wanted): (i64, &[f32]),
    most: usize,
    of: (&MemoryQuery, &Option<Vec<i64>>),
) -> Option<Vec<i64>> {
    if !wants(server) {
        return None;
    }
    match closest_by_index(server, (model, wanted), most, of).await {
        Ok(found) => {
            if found.is_some() {
                server.index_problem.take();
            }
            found
        }
        Err(error) => {
            server.index_problem.replace(Some(error.message));
            None
        }
    }
}

async fn closest_by_index(
    server: &Server,
    (model, wanted): (i64, &[f32]),
    most: usize,
    (query, scopes): (&MemoryQuery, &Option<Vec<i64>>),
) -> Stored<Option<Vec<i64>>> {
    let Ok(Usable { schema, in_scopes }) = usable(server, model, scopes).await? else {
        return Ok(None);
    };
    let kinds: Option<Vec<&str>> =
        query.kinds.as_ref().map(|kinds| kinds.iter().map(|kind| kind.as_str()).collect());
    let (since, until) = (query.since.unwrap_or(i64::MIN), query.until.unwrap_or(i64::MAX));
    let (wanted, wanted_rows) = (written(wanted), most);
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    // The settings hold for this statement, and before the first vector is read. With a fence the vectors are not read by the graph.
    let text = |fence: &str| {
        format!(
        "select chunk from (
           select chunk, e operator({schema}.<#>) $1::text::{schema}.halfvec as distance from {}
           where (select set_config('hnsw.iterative_scan', 'relaxed_order', true) || set_config('hnsw.ef_search', '{EACH_PASS}', true)) is not null
             and ($2::bigint[] is null or scope = any($2)) and ($3::text[] is null or kind = any($3))
             and created_at >= $4 and created_at < $5 {fence}) of_scopes
         order by distance limit $6",
            table(model)
        )
    };
    let params: [Param<'_>; 6] = [
        (&wanted, Type::TEXT),
        (scopes, Type::INT8_ARRAY),
        (&kinds, Type::TEXT_ARRAY),
        (&since, Type::INT8),
        (&until, Type::INT8),
        (&most, Type::INT8),
    ];
    let mut found = Vec::new();
    let is_narrow = scopes.is_some() && in_scopes <= NARROW;
    if !is_narrow {
        found = server.rows(SEARCHING, &text(""), &params).await?;
    }
    // The graph may not lead to what is far from the query, and ends after some thousands that a filter refuses.
    if found.len() < wanted_rows {
        found = server.rows(SEARCHING, &text("offset 0"), &params).await?;
    }
    found.iter().map(|row| get(row, "chunk")).collect::<Stored<_>>().map(Some)
}
