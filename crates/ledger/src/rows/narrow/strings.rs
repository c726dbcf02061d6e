//! The rows of `strings`: texts that many turns and messages have, by their numbers.
//!
//! It must never change a row or give a text another number: other rows name it.

use std::sync::LazyLock;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, params, params_from_iter};

use crate::sqlite::checksum;
use crate::sqlite::error::Stored;
use crate::sqlite::fields::Column;
use crate::sqlite::sql;

/// The number of the text `?2`, whose checksum is `?1`.
pub(crate) const ID: &str = "SELECT id FROM strings WHERE row_checksum = ?1 AND text = ?2";
const NEXT: &str = "SELECT coalesce(max(id), 0) + 1 FROM strings";
const ADD: &str = "INSERT INTO strings (id, text, row_checksum) VALUES (?1, ?2, ?3)";

/// The statement with the most numbers that a row needs.
const MOST: usize = 8;

/// The numbers of so many texts, in one statement.
static IDS: LazyLock<[String; MOST + 1]> = LazyLock::new(|| {
    std::array::from_fn(|count| {
        let ids = (0..count).map(|at| {
            let (sum, text) = (2 * at + 1, 2 * at + 2);
            format!("(SELECT id FROM strings WHERE row_checksum = ?{sum} AND text = ?{text})")
        });
        format!("SELECT {}", ids.collect::<Vec<_>>().join(", "))
    })
});

/// The numbers of at most eight texts. A new text gets a row.
pub(crate) fn ids<const N: usize>(
    connection: &Connection,
    texts: [Option<&str>; N],
) -> Stored<[Option<i64>; N]> {
    let mut found = [None; N];
    if texts.iter().all(Option::is_none) {
        return Ok(found);
    }
    const { assert!(N <= MOST) };
    let select = IDS.get(N).map_or("", String::as_str);
    let doing = "write a text that rows share";
    let sums = texts.map(|text| text.map(sum));
    let bound = sums.iter().zip(&texts).flat_map(|(sum, text)| [sum.bind(), text.bind()]);
    sql::first(connection, select, params_from_iter(bound), doing, |fields| {
        for id in &mut found {
            *id = fields.next()?;
        }
        Ok(())
    })?;
    for ((id, text), sum) in found.iter_mut().zip(texts).zip(sums) {
        if let (None, Some(text), Some(sum)) = (&id, text, sum) {
            // Another column of the turn may have had the same text.
            let known: Option<i64> = sql::optional(connection, ID, (sum, text), doing)?;
            *id = Some(match known {
                Some(known) => known,
                None => add(connection, text, sum)?,
            });
        }
    }
    Ok(found)
}

fn add(connection: &Connection, text: &str, sum: i64) -> Stored<i64> {
    let doing = "write a text that rows share";
    let id = sql::one(connection, NEXT, (), doing)?;
    sql::exec(connection, ADD, params![id, text, sum], doing)?;
    Ok(id)
}

/// The checksum of the row with that text.
pub(crate) fn sum(text: &str) -> i64 {
    let value = ValueRef::Text(text.as_bytes());
    checksum::of_values(checksum::columns("strings"), std::iter::once(value))
}
