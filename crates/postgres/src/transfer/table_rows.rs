//! The rows of the tables that a copy takes row by row, as texts.

use model::CopiedTable;
use portable::Stored;
use tokio_postgres::types::Type;

use crate::connect::server::Param;
use crate::rows::turn_read::get;
use crate::transfer::rows::ServerRows;

impl ServerRows<'_> {
    /// A page of the rows after the one with this key, or from the first one.
    pub(super) async fn page_of(
        &self,
        of: CopiedTable,
        after: &[String],
    ) -> Stored<Vec<Vec<String>>> {
        let (table, names, keys) = of.parts();
        let key = names.get(..keys).unwrap_or_default().join(", ");
        let from = match after {
            [] => String::new(),
            _ => format!(" where ({key}) > ({})", list(1..=keys, |at| format!("${at}"))),
        };
        let select = texts(names, "");
        let text =
            format!("select {select} as texts from @{table}{from} order by {key} limit 1024");
        let params: Vec<Param<'_>> =
            after.iter().map(|it| -> Param<'_> { (it, Type::TEXT) }).collect();
        self.texts(&text, &params).await
    }

    /// Those of the rows that are not there.
    pub(super) async fn missing_of(
        &self,
        of: CopiedTable,
        rows: &[Vec<String>],
    ) -> Stored<Vec<Vec<String>>> {
        let (table, names, _) = of.parts();
        let same: Vec<String> = names.iter().map(|name| format!("t.{name} = w.{name}")).collect();
        let text = format!(
            "select {} as texts from {} where not exists (select from @{table} t where {})",
            texts(names, "w."),
            given(names),
            same.join(" and ")
        );
        let columns = transposed(names.len(), rows);
        self.texts(&text, &params(&columns)).await
    }

    /// Writes rows, in the place of those with the same keys. What is forgotten goes from the index.
    pub(super) async fn write_to(&self, of: CopiedTable, rows: &[Vec<String>]) -> Stored<()> {
        let (table, names, keys) = of.parts();
        let (key, others) = names.split_at_checked(keys).unwrap_or_default();
        let set: Vec<String> = others.iter().map(|it| format!("{it} = excluded.{it}")).collect();
        let text = format!(
            "insert into @{table} ({0}) select {0} from {1} on conflict ({2}) do update set {3}",
            names.join(", "),
            given(names),
            key.join(", "),
            set.join(", ")
        );
        let columns = transposed(names.len(), rows);
        self.rows(&text, &params(&columns)).await?;
        if of != CopiedTable::Forgotten {
            return Ok(());
        }
        let of_kind = |kind: &str| -> Vec<String> {
            let ids = rows.iter().filter(|row| row.first().is_some_and(|it| it == kind));
            ids.filter_map(|row| row.get(1).cloned()).collect()
        };
        let (facts, turns) = (of_kind("fact"), of_kind("turn"));
        let both: [Param<'_>; 2] = [(&facts, Type::TEXT_ARRAY), (&turns, Type::TEXT_ARRAY)];
        let text = "with facts as (delete from @memory_facts where id = any($1)),
           pending as (delete from @memory_pending where turn_id = any($2)),
           indexed as (delete from @memory_turns where turn_id = any($2)),
           extracted as (delete from @memory_extractions where turn_id = any($2))
           delete from @memory_chunks where fact_id = any($1) or turn_id = any($2) returning 1";
        if !self.rows(text, &both).await?.is_empty() {
            self.rows("update @memory_state set generation = generation + 1", &[]).await?;
        }
        Ok(())
    }

    async fn texts(&self, text: &str, params: &[Param<'_>]) -> Stored<Vec<Vec<String>>> {
        self.rows(text, params).await?.iter().map(|row| get(row, "texts")).collect()
    }
}

/// All columns as one array of texts; the last one is a time.
fn texts(names: &[&str], of: &str) -> String {
    format!("array[{}::text]", list(names, |name| format!("{of}{name}")))
}

/// Rows that are given by columns.
fn given(names: &[&str]) -> String {
    let column = |at: usize| match at == names.len() {
        true => format!("${at}::bigint[]"),
        false => format!("${at}::text[]"),
    };
    format!("unnest({}) as w ({})", list(1..=names.len(), column), names.join(", "))
}

fn list<T>(of: impl IntoIterator<Item = T>, text: impl Fn(T) -> String) -> String {
    of.into_iter().map(text).collect::<Vec<_>>().join(", ")
}

fn transposed(many: usize, rows: &[Vec<String>]) -> Vec<Vec<String>> {
    (0..many).map(|at| rows.iter().filter_map(|row| row.get(at).cloned()).collect()).collect()
}

fn params(columns: &[Vec<String>]) -> Vec<Param<'_>> {
    columns.iter().map(|it| -> Param<'_> { (it, Type::TEXT_ARRAY) }).collect()
}
