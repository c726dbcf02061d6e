//! The port `PromptStore` over the writer and the readers. It must never interpret a file.

use crate::handle::ledger::Ledger;
use crate::sessions::prompt_files;
use model::{PortFuture, PromptStore};

impl PromptStore for Ledger {
    fn prompt_files<'a>(
        &'a self,
        session_label: &'a str,
        request: &'a str,
    ) -> PortFuture<'a, Option<String>> {
        let (label, request) = (session_label.to_owned(), request.to_owned());
        self.read_row(move |connection| prompt_files::files(connection, &label, &request))
    }

    fn set_prompt_files(
        &self,
        session_label: String,
        request: String,
        files: String,
    ) -> PortFuture<'static, ()> {
        // Submitted at once: dropping its answer does not cancel it.
        let submitted = self.core().map(|core| {
            let clock = core.claim.clock.clone();
            core.writer.submit(move |connection| {
                let names = (session_label.as_str(), request.as_str());
                prompt_files::set(connection, names, &files, clock.now_ms())
            })
        });
        Box::pin(async move { submitted?.await })
    }
}
