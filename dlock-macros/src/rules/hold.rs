//! The rules of `max_hold`, `max_renewals` and `min_hold`. `dlock-grammar` checks them, with the
//! lease as far as it is known.

use super::Scope;
use crate::args::{Args, Named, RenewArg};
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
}

impl Scope<'_> {
    /// Compares them with each other, and with what is known about the lease.
    pub(super) fn bounds(&mut self, args: &Args, ttl: Option<Duration>) -> Bounds {
        let [max_hold, min_hold] = [&args.max_hold, &args.min_hold].map(|written| {
            let written = written.as_ref()?;
            self.duration(&written.value, "")
        });
        let max_renewals = args.max_renewals.as_ref();
        let max_renewals = max_renewals.and_then(|written| self.count(&written.value));
        let hold = Hold {
            once_per: None,
            ttl,
            renewed: match args.renew {
                Some(RenewArg::Switch(on)) => on,
                Some(RenewArg::Every(_)) => true,
                None => args.meant("renew"),
            },
            max_hold,
            max_renewals,
            min_hold,
        };
        for error in hold.check() {
            let tokens = match error.argument() {
                "max_hold" => at_fault(args.max_hold.as_ref(), error),
                "max_renewals" => at_fault(args.max_renewals.as_ref(), error),
                _ => at_fault(args.min_hold.as_ref(), error),
            };
            self.errors.at(tokens, error);
        }
        Bounds {
            max_hold,
            max_renewals,
            min_hold,
        }
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
