//! The rules of `max_hold`, `max_renewals`, `min_hold` and `once_per`. `dlock-grammar` checks them,
//! with the lease as far as it is known.

use super::Scope;
use crate::{
    args::{Args, Named, RenewArg},
    model::OncePer,
};
use dlock_grammar::hold::{Hold, HoldError};
use proc_macro2::TokenStream;
use quote::ToTokens;
use std::time::Duration;
use syn::LitInt;

/// The bounds of a lock besides its lease.
pub(super) struct Bounds {
    pub(super) max_hold: Option<Duration>,
    pub(super) max_renewals: Option<u32>,
    pub(super) min_hold: Option<Duration>,
    pub(super) once_per: Option<OncePer>,
}

impl Scope<'_> {
    /// Compares them with each other, and with what is known about the lease.
    pub(super) fn bounds(&mut self, args: &Args, ttl: Option<Duration>) -> Bounds {
        let written = [&args.max_hold, &args.min_hold, &args.once_per];
        let [max_hold, min_hold, period] = written.map(|written| {
            let written = written.as_ref()?;
            self.duration(&written.value, "")
        });
        let max_renewals = args.max_renewals.as_ref();
        let max_renewals = max_renewals.and_then(|written| self.count(&written.value));
        let hold = Hold {
            ttl,
            renewed: match args.renew {
                Some(RenewArg::Switch(on)) => on,
                Some(RenewArg::Every(_)) => true,
                None => args.meant("renew"),
            },
            max_hold,
            max_renewals,
            min_hold,
            once_per: period,
        };
        for error in hold.check() {
            let tokens = match error.argument() {
                "max_hold" => at_fault(args.max_hold.as_ref(), error),
                "max_renewals" => at_fault(args.max_renewals.as_ref(), error),
                "once_per" => at_fault(args.once_per.as_ref(), error),
                _ => at_fault(args.min_hold.as_ref(), error),
            };
            self.errors.at(tokens, error);
        }
        self.check_output(args);
        let skips_after_crash = self.skips_after_crash(args);
        Bounds {
            max_hold,
            max_renewals,
            min_hold,
            once_per: period.map(|period| OncePer {
                period,
                skips_after_crash,
            }),
        }
    }

    fn skips_after_crash(&mut self, args: &Args) -> bool {
        let Some(text) = &args.after_crash else {
            return false;
        };
        match text.value().as_str() {
            "skip" => true,
            "again" => false,
            other => {
                let message =
                    format!("unknown `after_crash` {other:?}: write \"again\" or \"skip\"");
                self.errors.at(text, message);
                false
            }
        }
    }

    /// Every value but an `Err` is a success, and the expansion can't see an `Err` whose type the
    /// caller chooses.
    fn check_output(&mut self, args: &Args) {
        let output = self.output.filter(|_| args.name("once_per").is_some());
        let Some(output) = output.filter(|it| it.is_parameter_of(self.function)) else {
            return;
        };
        let message = format!(
            "`once_per` does not record a run that returns an `Err`, and `{0}` may hide one: return `Result<{0}, E>`",
            output.ty
        );
        self.errors.at(&output.ty, message);
    }

    fn count(&mut self, number: &LitInt) -> Option<u32> {
        let read = number.base10_parse();
        read.map_err(|_| {
            let message = format!(
                "{number} is more than a lock can be renewed: write at most {}, or leave it out",
                u32::MAX
            );
            self.errors.at(number, message);
        })
        .ok()
    }
}

/// The value, or the name if no value would do.
fn at_fault<T: ToTokens>(written: Option<&Named<T>>, error: HoldError) -> Option<TokenStream> {
    written.map(|written| match error {
        HoldError::MaxHoldUnrenewed | HoldError::MaxRenewalsUnrenewed => {
            written.name.to_token_stream()
        }
        _ => written.value.to_token_stream(),
    })
}
