//! What each kind adds to the static, and what is made with the key when the function is called.

use super::check;
use proc_macro2::TokenStream;
use quote::quote;

/// The method calls of the static, after its name.
#[track_caller]
fn check_spec(arguments: TokenStream, expected: &str) {
    let item = quote!(
        async fn f(id: u64) -> Result<(), E> {
            Ok(())
        }
    );
    let expansion = crate::tests::attribute(arguments, &item)
        .to_string()
        .replace(' ', "");
    let (_, spec) = expansion
        .split_once("\"f\")).inside(||())")
        .unwrap_or_default();
    let spec = spec.split(';').next().unwrap_or_default();
    assert_eq!(spec, expected, "{expansion}");
}

#[test]
fn each_kind() {
    check_spec(quote!(key = "k"), "");
    check_spec(quote!(key = "k", read), ".read()");
    check_spec(quote!(key = "k", write), ".write()");
    check_spec(quote!(key = "k", permits = 5), ".permits(5)");
    check_spec(
        quote!(key = "k", take = 2, permits = 5),
        ".permits(5).take(2)",
    );
    check_spec(quote!(key = "k", permits = N), "");
    check_spec(quote!(key = "k", permits = N, take = 2), "");
    check_spec(quote!(key = "k", permits = 5, take = n()), ".permits(5)");
    check_spec(quote!(key = "k", reentrant), ".reentrant()");
    check_spec(quote!(key = "k", reentrant, owner = "<id>"), ".reentrant()");
    check_spec(quote!(fair, key = "k"), ".fair()");
    check_spec(quote!(key = "k", lead), ".wait_forever().renew()");
    let leads = quote!(key = "k", renew = "2s", on_shutdown = "finish", fair, lead);
    let expected = ".wait_forever().renew_every(2000).fair().finish_at_shutdown()";
    check_spec(leads, expected);
    let daily = quote!(key = "k", after_crash = "again", once_per = "20h", fair);
    check_spec(daily, ".once_per(72000000).fair()");
    check_spec(quote!(keys = ["a"], fair, ttl = "1s"), ".ttl(1000).fair()");
}

#[test]
fn keys() {
    check(
        "keys",
        quote!(
            keys = ["account:<from>", "account:<to>", bank_key(bank), BANK],
            write,
            pool = self.locks
        ),
        &quote!(
            async fn transfer(from: u64, to: u64, bank: u8) -> Result<(), E> {
                Ok(())
            }
        ),
    );
}

#[test]
fn keys_that_are_an_expression() {
    check(
        "keys_expression",
        quote!(keys = accounts.iter().map(account_key)),
        &quote!(
            async fn close(accounts: Vec<u64>) -> Result<(), E> {
                Ok(())
            }
        ),
    );
    let constant = crate::tests::attribute(
        quote!(keys = accounts::ALL),
        &quote!(
            async fn f() -> Result<(), E> {
                Ok(())
            }
        ),
    );
    let constant = constant.to_string().replace(' ', "");
    assert!(
        constant.contains("constant_keys(accounts::ALL)"),
        "{constant}"
    );
}

#[test]
fn owner() {
    check(
        "owner",
        quote!(
            key = "account:<id>",
            reentrant,
            owner = "pay:<workflow>",
            pool = "billing"
        ),
        &quote!(
            async fn pay(id: u64, workflow: Uuid) -> Result<(), E> {
                Ok(())
            }
        ),
    );
    check(
        "owner_expression",
        quote!(
            key = "account:<id>",
            reentrant,
            owner = workflow.id + 1,
            pool = self.locks
        ),
        &quote!(
            async fn pay(id: u64, workflow: Workflow) -> Result<(), E> {
                Ok(())
            }
        ),
    );
}
