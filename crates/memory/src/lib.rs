//! The pure decisions of a memory: how a text is cut, who may see what, which vectors are close, how lists are joined, what a
//! context gets, and what a model is asked for facts. It must never do I/O, await, or read a clock.

pub mod assemble;
pub mod chunk;
pub mod extract;
pub mod rank;
pub mod scope;
pub mod vectors;
