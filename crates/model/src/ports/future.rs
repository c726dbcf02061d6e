//! The answer of a port: a boxed future, so that a port is an object and its backend is chosen when the engine starts.
//!
//! It must never be awaited on the JavaScript thread.

use std::future::Future;
use std::pin::Pin;

use crate::StorageError;

/// The answer of a port, awaited off the JavaScript thread.
pub type PortFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, StorageError>> + Send + 'a>>;
