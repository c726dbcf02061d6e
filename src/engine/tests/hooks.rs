//! A gate that never answers, with the clock of the tests.

use super::*;
use tools::{Verdict, VerdictFuture};

/// `echo` is never decided about, everything else is allowed.
#[derive(Default)]
struct SilentGate {
    executed: Mutex<Vec<String>>,
}

impl ToolHost for SilentGate {
    fn decides(&self) -> bool {
        true
    }

    fn decide(&self, invocation: Invocation) -> VerdictFuture {
        if invocation.tool_name == "echo" {
            return Box::pin(std::future::pending());
        }
        Box::pin(std::future::ready(Verdict::Allow))
    }

    fn execute(&self, invocation: Invocation, _cancel: CancellationToken) -> ToolFuture {
        self.executed.lock().unwrap().push(invocation.tool_name);
        Box::pin(std::future::ready(ToolAnswer::text("ran".to_owned())))
    }
}

#[tokio::test(start_paused = true)]
async fn a_gate_that_is_silent_for_thirty_seconds_denies_its_call_and_no_other() {
    let rig = Rig::new(&json!([{ "toolCalls": [call("echo"), call("fail")] }, "done"]));
    let gate = Arc::new(SilentGate::default());
    let host = Arc::clone(&gate) as Arc<dyn ToolHost>;
    let mut run = start_with(&rig.engine, host, &json!({}));
    let early = tokio::time::timeout(Duration::from_millis(29_999), run.end()).await;
    assert!(early.is_err(), "it waits for thirty seconds");
    let (result, _) = run.end().await;
    assert_eq!(*gate.executed.lock().unwrap(), ["fail"]);
    let calls = result["toolCalls"].as_array().unwrap();
    assert_eq!([&calls[0]["status"], &calls[1]["status"]], ["failed", "completed"]);
    let error = calls[0]["error"].as_str().unwrap();
    assert_eq!(error, "This tool was not run: nobody decided about the call in time.");
    assert_eq!(result["stopReason"], "end_turn");
}
