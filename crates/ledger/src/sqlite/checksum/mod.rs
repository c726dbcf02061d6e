//! The checksum of each row: the SQL functions that compute it, the statements that write it, the tables that it covers. It
//! must never give a damaged row a new checksum.

mod checked;
mod row_sum;
mod sql;
mod sum_functions;
mod tables;

pub(crate) use self::checked::{Checked, checked};
pub(crate) use self::row_sum::RowSum;
pub(crate) use self::sql::{insert, insert_all, is_whole, numbered, replace_all, set};
pub(crate) use self::sum_functions::{add, of_values};
pub(crate) use self::tables::{TABLES, Table, columns};
