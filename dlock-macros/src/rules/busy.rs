//! The rules of `on_busy`: a function that skips its body must still have a way to return other
//! errors.

use super::Scope;
use crate::{args::Args, signature::OutputKind};

impl Scope<'_> {
    /// Whether a busy lock skips the body. Whether the return type has a value for that is checked
    /// by the compiler, which can resolve an alias.
    pub(super) fn skips(&mut self, args: &Args) -> bool {
        let Some(on_busy) = &args.on_busy else {
            return false;
        };
        match on_busy.value().as_str() {
            "skip" => {}
            "error" => return false,
            other => {
                let message = format!("unknown `on_busy` {other:?}: write \"error\" or \"skip\"");
                self.errors.at(on_busy, message);
                return false;
            }
        }
        let mut forever = args.wait.as_ref();
        forever = forever.filter(|wait| wait.value() == "forever" && !args.meant("once_per"));
        if let Some(wait) = forever {
            let message = "whoever waits for ever never finds the lock busy, so `on_busy = \"skip\"` would never skip: leave `wait` out \
                           to try once, or give it an end";
            self.errors.at(wait, message);
        }
        let returns = match self.output.map(|output| &output.kind) {
            Some(OutputKind::Unit) => ("()", "()"),
            Some(OutputKind::Option) => ("Option", "Option<T>"),
            _ => return true,
        };
        if !args.meant("on_error") && !args.meant("map_err") {
            let (this, ok) = returns;
            let message = format!(
                "only a busy lock is skipped, not an outage, and this function returns `{this}`, which can't carry an error: add \
                 `on_error = |error| …`, or return `Result<{ok}, E>`"
            );
            self.errors.at(on_busy, message);
        }
        true
    }
}
