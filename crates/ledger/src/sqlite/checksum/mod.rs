//! The sum that each row carries: the SQL functions that compute it, the statements that write it, the tables that have it.
//! It must never give a damaged row a fresh sum.

mod sql;
mod sum_functions;
mod tables;

pub(crate) use self::sql::{insert, is_whole, numbered, replace, seal, set};
pub(crate) use self::sum_functions::{add, of_values};
pub(crate) use self::tables::{TABLES, Table, columns};
