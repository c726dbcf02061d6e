//! Rows of turns, messages and calls in the form in which their tables have them: texts that repeat by number, words of fixed lists
//! by number, and no value twice. Views of the schema show the values. It must never write a value that a view does not give
//! back.

pub(crate) mod call_insert;
pub(crate) mod message_insert;
pub(crate) mod shared_values;
pub(crate) mod strings;
pub(crate) mod turn_insert;
pub(crate) mod words;

#[cfg(test)]
mod tests;
