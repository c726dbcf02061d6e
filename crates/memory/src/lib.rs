//! The pure decisions of a memory: how a text is cut, who may see what, which vectors are close, how lists are joined, and what a
//! context gets. It must never do I/O, await, or read a clock.

pub mod assemble;
pub mod chunk;
pub mod rank;
pub mod scope;
pub mod vectors;
